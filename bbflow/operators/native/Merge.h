#pragma once

#include "Fold.h"

/** How two states' numbers of one field become one, in the order of the names in Names.cpp. */
enum BbflowRule
{
    BbflowAdd,
    BbflowLeast,
    BbflowMost
};

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

/** Numbers of a field: for each of `Rows` a run of `Points`, `Stride` bytes apart. */
struct BbflowNumbers
{
    void *First;
    uint64_t Stride;
};

/**
 * Sets target = left (+) right for a field whose rule says how; the target may be either side.
 * @return 0; 2 if the type or the rule is unknown
 */
BBFLOW_EXPORT int bbflow_merge(int type, int rule, const BbflowNumbers *left,
                               const BbflowNumbers *right, const BbflowNumbers *target,
                               uint64_t rows, uint64_t points);

/**
 * Sets the shifts and moments of target = left (+) right, whose counts aren't merged yet.
 * @return 0; 2 if the type is unknown
 */
BBFLOW_EXPORT int bbflow_merge_moments(int type, const void *const *left, const void *const *right,
                                       void *const *target, uint64_t points);

/** One state's work: Target = Left (+) Right. Its mirror is in library.py. */
struct BbflowMergeTask
{
    const void *Left[BbflowAccumulators]; ///< null: there is none, and the right one is copied
    const void *Right[BbflowAccumulators];
    void *Target[BbflowAccumulators]; ///< null: not kept; may be equal to Left
    uint64_t Points;
};

/**
 * Makes a statistic of a state: float64, but for extremes of floats, which are of their type.
 * @param ddof what is taken off the count for a variance
 * @return 0; 2 if the type or the formula is unknown
 */
BBFLOW_EXPORT int bbflow_finish(int formula, int type, const void *const *state, double ddof,
                                void *result, uint64_t points);

/** Gives the names that the codes of fields, rules and formulas stand for, and what came last, as
 * the caller checks. */
BBFLOW_EXPORT const char *bbflow_names();

/** Gives the size of each struct that a caller lays out, and where its fields are:
 * `BbflowRow 16 Step@0 Index@8; ...`. */
BBFLOW_EXPORT const char *bbflow_structs();
