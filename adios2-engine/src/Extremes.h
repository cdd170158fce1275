#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace bbflow
{

/** Smallest and largest value of a block as FORMAT.md lays them, 8 bytes each; the first is above
 * the second where there are none. */
using Extremes = std::array<char, 16>;

/** The type in which values are kept: it holds all of T. */
template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double,
                                std::conditional_t<std::is_unsigned_v<T>, uint64_t, int64_t>>;

template <class T>
Extremes ExtremesOf(const T smallest, const T largest)
{
    const Wide<T> both[] = {static_cast<Wide<T>>(smallest), static_cast<Wide<T>>(largest)};
    Extremes bytes;
    static_assert(sizeof(both) == sizeof(bytes));
    std::memcpy(bytes.data(), both, sizeof(both));
    return bytes;
}

} // end namespace bbflow
