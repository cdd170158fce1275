#pragma once

#include "Fold.h"

#include <cstdint>

namespace bbflow
{

/** One quantile sketch for each point; see sketch.py for the rules, percentiles.py for the bound.
 */
struct Sketch
{
    int32_t *Seen;  ///< steps of each point, missing values included
    int32_t *Count; ///< its valid values
    void *Max;      ///< the largest of them
    void *Values;   ///< rows of values: `Size` of the input buffer, then `Size` of each level's run
    uint64_t Stride; ///< from row to row, in values
};

/** What all sketches of a state have in common. */
struct SketchShape
{
    uint64_t Points;
    uint64_t Size; ///< values of a run
    uint64_t Top;  ///< the highest level, whose run may weigh more than 2^Top
};

// All throw std::bad_alloc if there is no memory.

/**
 * Takes steps into sketches.
 * @param source state so far; of it only the rows that hold something are looked at. Null: none
 * @param target gets the new state; may be `source`
 * @param blocks for each step a value of each point
 * @param fill a value that stands for 'missing', or null
 */
void FoldSketches(int type, const SketchShape &shape, const Sketch *source, const Sketch &target,
                  const void *const *blocks, uint64_t steps, const void *fill);

/** Merges two states into a third one that is apart from both. */
void MergeSketches(int type, const SketchShape &shape, const Sketch &left, const Sketch &right,
                   const Sketch &target);

/**
 * Finds for each point the smallest value up to which the kept values weigh at least so much.
 * @param weights what they must weigh, at least 1
 * @param result gets the values; the largest valid one where all together weigh less
 */
void FindInSketches(int type, const SketchShape &shape, const Sketch &state, const int64_t *weights,
                    void *result);

} // end namespace bbflow
