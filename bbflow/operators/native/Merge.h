#pragma once

#include "Fold.h"

/** What moments and extremes are made into, in the order of the names in Names.cpp. */
enum BbflowFormula
{
    BbflowMean,
    BbflowVariance,
    BbflowDeviation,
    BbflowSum,
    BbflowSmallest,
    BbflowLargest,
    BbflowRange
};

/** Moments and extremes of one state: Target = Left (+) Right. Its mirror is in library.py. */
struct BbflowMergeTask
{
    const void *Left[BbflowAccumulators]; ///< null: there is none, and the right one is copied
    const void *Right[BbflowAccumulators];
    void *Target[BbflowAccumulators]; ///< null: not kept; may be equal to either side
    uint64_t Points;
};

/**
 * Makes a statistic of a state: float64, but for extremes of floats, which are of their type.
 * @param ddof what is taken off the count for a variance
 * @return 0; 2 if the type or the formula is unknown
 */
BBFLOW_EXPORT int bbflow_finish(int formula, int type, const void *const *state, double ddof,
                                void *result, uint64_t points);

/** Gives the names that the codes of fields, formulas and families stand for, and what came last,
 * as the caller checks. */
BBFLOW_EXPORT const char *bbflow_names();

/** Gives the size of each struct that a caller lays out, and where its fields are:
 * `BbflowRow 16 Step@0 Index@8; ...`. */
BBFLOW_EXPORT const char *bbflow_structs();

namespace bbflow
{

/** Merges two states that are both there. */
void Merge(int type, const BbflowMergeTask &task);

/** Sets target = left + right; the target may be either side. */
void AddCounts(const int32_t *left, const int32_t *right, int32_t *target, uint64_t points);

} // end namespace bbflow
