#pragma once

#include "Grid.h"

#include <cmath>
#include <complex>
#include <cstdint>

namespace climate
{

/** The finaliser of SplitMix64 (Steele, Lea and Flood 2014): scatters a counter over 64 bits. */
inline uint64_t Scatter(uint64_t bits)
{
    bits += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
}

/** Two independent normal numbers that depend on the arguments alone, so every rank that asks gets
 *  the same ones, in any order. */
inline std::complex<double> NormalPair(const uint64_t seed, const uint64_t family,
                                       const uint64_t step, const uint64_t mode)
{
    constexpr double unit = 1.0 / 9007199254740992.0; // 2^-53
    const uint64_t bits = Scatter(Scatter(Scatter(Scatter(seed) ^ family) ^ step) ^ mode);
    const double first = (static_cast<double>(bits >> 11) + 0.5) * unit;
    const double second = static_cast<double>(Scatter(bits) >> 11) * unit;
    return std::polar(std::sqrt(-2 * std::log(first)), 2 * Pi * second);
}

} // end namespace climate
