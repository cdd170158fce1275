#pragma once

#include "Fold.h"

#include <cstring>
#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/** The templates are compiled anew inside every clone of an entry point, for that clone's CPU. */
#define BBFLOW_INLINE inline __attribute__((always_inline))

namespace bbflow
{

/** Points folded at a time: their accumulators (32 bytes a point for float) and 16 steps stay in
 * L1. */
constexpr uint64_t TilePoints = 256;

/** The processor itself follows the blocks of this many steps from tile to tile, and fetches ahead;
 * those of more must be asked for. */
constexpr uint64_t FollowedSteps = 32;

/** States above this size would push the blocks out of the cache on their way to memory. */
constexpr uint64_t StreamingBytes = 1 << 23;

/** Where the accumulators of a tile are. */
template <class T>
struct Fields
{
    int32_t *Count;
    T *Shift;
    double *First;
    double *Second;
    T *Min;
    T *Max;
};

/** A tile of its own. The spaces between keep the arrays out of each other's cache sets. */
template <class T>
struct Tile
{
    alignas(64) int32_t Count[TilePoints + 16];
    alignas(64) T Shift[TilePoints + 16];
    alignas(64) double First[TilePoints + 16];
    alignas(64) double Second[TilePoints + 16];
    alignas(64) T Min[TilePoints + 16];
    alignas(64) T Max[TilePoints + 16];

    Fields<T> GetFields() { return {Count, Shift, First, Second, Min, Max}; }
};

template <class T>
constexpr T Highest()
{
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
}

template <class T>
constexpr T Lowest()
{
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}

template <class A>
BBFLOW_INLINE A *At(const void *array, const uint64_t at)
{
    return array ? static_cast<A *>(const_cast<void *>(array)) + at : nullptr;
}

/** Gives a tile's part of a state. */
template <class T>
BBFLOW_INLINE Fields<T> FieldsAt(const void *const *state, const uint64_t at)
{
    return {At<int32_t>(state[BbflowCount], at), At<T>(state[BbflowShift], at),
            At<double>(state[BbflowFirst], at),  At<double>(state[BbflowSecond], at),
            At<T>(state[BbflowMin], at),         At<T>(state[BbflowMax], at)};
}

template <class T>
BBFLOW_INLINE void SetIdentity(Tile<T> &tile)
{
    for (uint64_t i = 0; i < TilePoints; ++i)
    {
        tile.Count[i] = 0;
        tile.Shift[i] = T(0);
        tile.First[i] = 0;
        tile.Second[i] = 0;
        tile.Min[i] = Highest<T>();
        tile.Max[i] = Lowest<T>();
    }
}

/** A store past the cache saves reading the line that is overwritten: a third of the traffic when
 * the state goes from one buffer to another. */
template <class A>
BBFLOW_INLINE void Stream(A *to, const A *tile, const uint64_t n)
{
    if (to == tile)
    {
        return; // computed, but not wanted
    }
#if defined(__SSE2__)
    if (n == TilePoints && reinterpret_cast<uintptr_t>(to) % sizeof(__m128i) == 0)
    {
        const __m128i *from = reinterpret_cast<const __m128i *>(tile);
        __m128i *line = reinterpret_cast<__m128i *>(to);
        for (uint64_t i = 0; i < n * sizeof(A) / sizeof(__m128i); ++i)
        {
            _mm_stream_si128(line + i, _mm_loadu_si128(from + i));
        }
        return;
    }
#endif
    std::memcpy(to, tile, n * sizeof(A));
}

} // end namespace bbflow
