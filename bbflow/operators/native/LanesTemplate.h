#pragma once

#include "Kinds.h"
#include "Lanes.h"

/** A loop over lanes becomes vectors only if it isn't unrolled before. */
#if defined(__clang__)
#define BBFLOW_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define BBFLOW_LANES _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#endif

namespace bbflow
{

namespace
{

/** Puts the smaller values of two rows into the first and the larger ones into the second. */
template <class T>
BBFLOW_INLINE void Exchange(LaneRow<T> &first, LaneRow<T> &second)
{
    BBFLOW_LANES
    for (uint64_t lane = 0; lane < LaneCount<T>; ++lane)
    {
        const T a = first.Values[lane];
        const T b = second.Values[lane];
        first.Values[lane] = a < b ? a : b;
        second.Values[lane] = a > b ? a : b;
    }
}

/** Batcher's merge exchange, which sorts any number of rows: Knuth, The Art of Computer
 * Programming 3, section 5.2.2, algorithm M. */
template <class T>
BBFLOW_INLINE void SortRowsOf(LaneRow<T> *rows, const uint64_t count)
{
    uint64_t half = 1;
    while (2 * half < count)
    {
        half *= 2;
    }
    for (uint64_t p = half; p > 0; p /= 2)
    {
        uint64_t rest = 0;
        uint64_t distance = p;
        for (uint64_t q = half;; q /= 2)
        {
            for (uint64_t i = 0; i + distance < count; ++i)
            {
                if ((i & p) == rest)
                {
                    Exchange(rows[i], rows[i + distance]);
                }
            }
            if (q == p)
            {
                break;
            }
            distance = q - p;
            rest = p;
        }
    }
}

/** Batcher's bitonic merge; its last stage gives only the first row of each pair. */
template <class T>
BBFLOW_INLINE void CollapseRowsOf(LaneRow<T> *rows, const uint64_t size)
{
    uint64_t distance = 1;
    while (2 * distance < 2 * size)
    {
        distance *= 2;
    }
    for (; distance > 1; distance /= 2)
    {
        for (uint64_t start = 0; start + distance < 2 * size; start += 2 * distance)
        {
            const uint64_t end = std::min(start + distance, 2 * size - distance);
            for (uint64_t i = start; i < end; ++i)
            {
                Exchange(rows[i], rows[i + distance]);
            }
        }
    }
    for (uint64_t i = size; i-- > 0;) // from above: no row is overwritten before it is read
    {
        const LaneRow<T> *pair = rows + 2 * i;
        BBFLOW_LANES
        for (uint64_t lane = 0; lane < LaneCount<T>; ++lane)
        {
            const T a = pair[0].Values[lane];
            const T b = pair[1].Values[lane];
            rows[size + i].Values[lane] = a < b ? a : b;
        }
    }
}

template <bool FILL, class T>
BBFLOW_INLINE void TakeStepOf(const T *block, const T fill, const uint64_t points, T *row,
                              int32_t *count, T *max)
{
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < points; ++i)
    {
        const T value = block[i];
        const bool valid = FILL ? (value == value) & (value != fill) : value == value;
        row[i] = valid ? value : Padding<T>;
        count[i] += valid;
        max[i] = valid & (value > max[i]) ? value : max[i];
    }
}

template <class T>
BBFLOW_INLINE void AddWeightsOf(const LaneRow<T> *rows, const uint64_t count, const int32_t weight,
                                const LaneRow<T> &limit, int32_t *sums)
{
    int32_t found[LaneCount<T>] = {};
    const LaneRow<T> limits = limit;
    for (uint64_t i = 0; i < count; ++i)
    {
        BBFLOW_LANES
        for (uint64_t lane = 0; lane < LaneCount<T>; ++lane)
        {
            found[lane] += rows[i].Values[lane] <= limits.Values[lane];
        }
    }
    for (uint64_t lane = 0; lane < LaneCount<T>; ++lane)
    {
        sums[lane] += weight * found[lane];
    }
}

} // namespace

} // end namespace bbflow

#define BBFLOW_DEFINE_LANES(T)                                                                     \
    BBFLOW_CLONES void SortRows(LaneRow<T> *rows, const uint64_t count)                            \
    {                                                                                              \
        SortRowsOf(rows, count);                                                                   \
    }                                                                                              \
    BBFLOW_CLONES void CollapseRows(LaneRow<T> *rows, const uint64_t size)                         \
    {                                                                                              \
        CollapseRowsOf(rows, size);                                                                \
    }                                                                                              \
    BBFLOW_CLONES void TakeStep(const T *block, const T *fill, const uint64_t points, T *row,      \
                                int32_t *count, T *max)                                            \
    {                                                                                              \
        fill ? TakeStepOf<true>(block, *fill, points, row, count, max)                             \
             : TakeStepOf<false>(block, T(), points, row, count, max);                             \
    }                                                                                              \
    BBFLOW_CLONES void AddWeights(const LaneRow<T> *rows, const uint64_t count,                    \
                                  const int32_t weight, const LaneRow<T> &limit, int32_t *sums)    \
    {                                                                                              \
        AddWeightsOf(rows, count, weight, limit, sums);                                            \
    }
