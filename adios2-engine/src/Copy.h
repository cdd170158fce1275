#pragma once

#include "MinMax.h"

#include <complex>
#include <cstddef>
#include <type_traits>

namespace bbflow
{

/** Copies bytes that nobody here reads again soon: large copies go past the caches.
 *  @param target aligned to 16 bytes */
void StreamCopy(char *target, const char *source, size_t bytes);

/** Makes the copies of StreamCopy visible to other processes. */
void FinishCopies();

/** Bytes that are looked at and copied in one go: they stay in the first cache between both. */
constexpr size_t TileBytes = 4096;

/** The type in which a range is kept; void where there is no order. */
template <class T>
using Ranged = std::conditional_t<
    std::is_same_v<T, char>, int8_t,
    std::conditional_t<std::is_same_v<T, long double> || !std::is_arithmetic_v<T>, void, T>>;

/** Copies n values and finds their range in the same pass. */
template <class T>
Range<T> CopyWithRange(char *target, const T *values, const size_t n)
{
    constexpr size_t tile = TileBytes / sizeof(T);
    Range<T> range;
    for (size_t i = 0; i < n; i += tile)
    {
        const size_t m = n - i < tile ? n - i : tile;
        Widen(range, values + i, m);
        StreamCopy(target + i * sizeof(T), reinterpret_cast<const char *>(values + i),
                   m * sizeof(T));
    }
    FinishCopies();
    return range;
}

} // end namespace bbflow
