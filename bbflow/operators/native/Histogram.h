#pragma once

#include "Fold.h"

#include <cstdint>

/** Counts in rows: below the first edge, each bin, above the last edge. See bins.py. */
struct BbflowBins
{
    const double *Breaks; ///< row r ends before Breaks[r]; one for each row, the last one is NaN
    const int32_t *Cells; ///< for each cell of an even grid a row that doesn't begin after it
    double Start;         ///< where cell 1 begins
    double CellsPerUnit;  ///< how many cells are there in a unit of the values
    uint64_t CellCount;   ///< the first and the last one are endless
    uint64_t Rows;
    uint64_t OneStep; ///< nonzero: a value's row is that of its cell or the next one
};

namespace bbflow
{

/** Rows of counts in given bins. */
struct BinCounts
{
    int32_t *Counts; ///< null: there are none yet
    uint64_t Stride; ///< from row to row
};

/** Counts of bins that are 2^Exponent wide; the first begins at Origin times that. See
 * adaptive_bins.py. */
struct Grid
{
    int32_t *Counts;   ///< Bins rows
    uint64_t Stride;   ///< from row to row
    int64_t *Origin;   ///< for each point
    int32_t *Exponent; ///< for each point
    int32_t *Last;     ///< for each point the last bin that isn't empty; -1: there is none
    int32_t *Below;    ///< for each point how many values were -infinity
    int32_t *Above;    ///< for each point how many values were infinity
};

// All throw std::bad_alloc if there is no memory.

/**
 * Counts the values of some steps in given bins.
 * @param source counts so far
 * @param target gets the counts; may be `source`
 * @param fill a value that stands for 'missing', or null
 */
void FoldBins(int type, const BbflowBins &bins, const BinCounts &source, const BinCounts &target,
              const void *const *blocks, uint64_t steps, uint64_t points, const void *fill);

/** Counts the values of some steps in place, in bins as narrow as all values so far allow. */
void FoldGrid(int type, uint64_t bins, const Grid &state, const void *const *blocks, uint64_t steps,
              uint64_t points, const void *fill);

/** Adds a state to another one; without memory nothing has happened. */
void MergeGrid(uint64_t bins, const Grid &state, const Grid &more, uint64_t points);

} // end namespace bbflow
