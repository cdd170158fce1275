#pragma once

#include "Tile.h"

#include <cstdint>
#include <vector>

namespace bbflow
{

/** Points whose values are sorted side by side: one cache line of them. */
template <class T>
constexpr uint64_t LaneCount = 64 / sizeof(T);

/** Stands for 'missing' in a sketch: sorts behind every value. */
template <class T>
constexpr T Padding = Highest<T>();

/** One value of each lane. */
template <class T>
struct alignas(64) LaneRow
{
    T Values[LaneCount<T>];
};

/** The work on rows of lanes; defined in Lanes*.cpp with a clone for each instruction set. */
#define BBFLOW_DECLARE_LANES(CODE, T)                                                              \
    /** Sorts the rows of each lane. */                                                            \
    void SortRows(LaneRow<T> *rows, uint64_t count);                                               \
    /** Of 2 `size` rows, each lane falling, then from the middle on rising: leaves every other    \
     * one of the sorted rows, the first included, in the second half. */                          \
    void CollapseRows(LaneRow<T> *rows, uint64_t size);                                            \
    /** Puts a step into a row, and its valid values into the count and the maximum. */            \
    void TakeStep(const T *block, const T *fill, uint64_t points, T *row, int32_t *count, T *max); \
    /** Adds a weight to each lane's sum for every row that isn't above the lane's limit. */       \
    void AddWeights(const LaneRow<T> *rows, uint64_t count, int32_t weight,                        \
                    const LaneRow<T> &limit, int32_t *sums);
BBFLOW_FOREACH_FOLD_TYPE(BBFLOW_DECLARE_LANES)
#undef BBFLOW_DECLARE_LANES

} // end namespace bbflow
