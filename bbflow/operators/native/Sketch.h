#pragma once

#include "Fold.h"

#include <cstdint>

/** One quantile sketch for each point; see percentiles.py for the rules and the bound. */
struct BbflowSketch
{
    int32_t *Seen;  ///< steps of each point, missing values included
    int32_t *Count; ///< its valid values
    void *Max;      ///< the largest of them
    void *Values;   ///< rows of values: `Size` of the input buffer, then `Size` of each level's run
    uint64_t Stride; ///< from row to row, in values
};

/** What all sketches of a state have in common. */
struct BbflowSketchShape
{
    uint64_t Points;
    uint64_t Size; ///< values of a run
    uint64_t Top;  ///< the highest level, whose run may weigh more than 2^Top
};

/**
 * Takes steps into sketches, in place.
 * @param type as in bbflow_fold
 * @param blocks for each step a value of each point
 * @param fill a value that stands for 'missing', or null
 * @return 0; 1 if there is no memory; 2 if the type is unknown
 */
BBFLOW_EXPORT int bbflow_sketch_fold(int type, const BbflowSketchShape *shape,
                                     const BbflowSketch *state, const void *const *blocks,
                                     uint64_t steps, const void *fill);

/** Merges two states into a third one that is apart from both; returns as bbflow_sketch_fold. */
BBFLOW_EXPORT int bbflow_sketch_merge(int type, const BbflowSketchShape *shape,
                                      const BbflowSketch *left, const BbflowSketch *right,
                                      const BbflowSketch *target);

/** Copies what a state's points hold, and no more; returns as bbflow_sketch_fold. */
BBFLOW_EXPORT int bbflow_sketch_copy(int type, const BbflowSketchShape *shape,
                                     const BbflowSketch *source, const BbflowSketch *target);

/**
 * Finds for each point the smallest value up to which the kept values weigh at least so much.
 * @param weights what they must weigh, at least 1
 * @param result gets the values; the largest valid one where all together weigh less
 * @return as bbflow_sketch_fold
 */
BBFLOW_EXPORT int bbflow_sketch_find(int type, const BbflowSketchShape *shape,
                                     const BbflowSketch *state, const int64_t *weights,
                                     void *result);
