#include "Doubles.h"
#include "Histogram.h"
#include "Kinds.h"

#include <algorithm>
#include <vector>

namespace bbflow
{

namespace
{

constexpr uint64_t BinPoints = 512;
constexpr uint64_t ByteSteps = 255; ///< this many fit into a byte's count

/** What is counted of some steps of a tile: a byte for each row and point, and a row of missing
 * ones. */
struct BinWork
{
    explicit BinWork(const uint64_t rows) : Counts((rows + 1) * BinPoints) {}

    std::vector<uint8_t> Counts;
    alignas(64) double Values[BinPoints];
    alignas(64) int32_t Rows[BinPoints];
};

BBFLOW_CLONES void FindCells(const BbflowBins &bins, const double *values, const uint64_t points,
                             int32_t *cells)
{
    const double start = bins.Start;
    const double scale = bins.CellsPerUnit;
    const double last = double(bins.CellCount - 1);
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < points; ++i)
    {
        const double cell = (values[i] - start) * scale + 1;
        const double above = cell > 0 ? cell : 0; // 0 for NaN, too
        cells[i] = int32_t(above < last ? above : last);
    }
}

/** Finds the row of each value; a missing one's is the last row and one more. */
template <bool ONE>
BBFLOW_INLINE void FindRowsOf(const BbflowBins &bins, const double *values, const uint64_t points,
                              int32_t *rows)
{
    const int32_t *cells = bins.Cells;
    const double *breaks = bins.Breaks;
    const int32_t missing = int32_t(bins.Rows);
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < points; ++i)
    {
        const double value = values[i];
        int32_t row = cells[rows[i]];
        if (ONE)
        {
            row += value >= breaks[row];
        }
        while (!ONE && value >= breaks[row])
        {
            ++row;
        }
        rows[i] = value == value ? row : missing;
    }
}

/** @param rows has the cells, and gets the rows */
BBFLOW_CLONES void FindRows(const BbflowBins &bins, const double *values, const uint64_t points,
                            int32_t *rows)
{
    bins.OneStep ? FindRowsOf<true>(bins, values, points, rows)
                 : FindRowsOf<false>(bins, values, points, rows);
}

void CountRows(const int32_t *rows, const uint64_t points, uint8_t *counts)
{
    for (uint64_t i = 0; i < points; ++i)
    {
        ++counts[uint64_t(rows[i]) * BinPoints + i];
    }
}

BBFLOW_CLONES void AddRow(const int32_t *source, const uint8_t *counts, const uint64_t points,
                          int32_t *target)
{
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < points; ++i)
    {
        target[i] = (source ? source[i] : 0) + counts[i];
    }
}

/** Adds to a tile what was counted. */
void AddTile(const BinWork &work, const uint64_t rows, const BinCounts &source,
             const BinCounts &target, const uint64_t points)
{
    for (uint64_t row = 0; row < rows; ++row)
    {
        AddRow(source.Counts ? source.Counts + row * source.Stride : nullptr,
               work.Counts.data() + row * BinPoints, points, target.Counts + row * target.Stride);
    }
}

} // namespace

void FoldBins(const int type, const BbflowBins &bins, const BinCounts &source,
              const BinCounts &target, const void *const *blocks, const uint64_t steps,
              const uint64_t points, const void *fill)
{
    BinWork work(bins.Rows);
    for (uint64_t at = 0; at < points; at += BinPoints)
    {
        const uint64_t count = std::min(BinPoints, points - at);
        const BinCounts to{target.Counts + at, target.Stride};
        BinCounts from{source.Counts ? source.Counts + at : nullptr, source.Stride};
        for (uint64_t first = 0; first < steps; first += ByteSteps)
        {
            std::fill(work.Counts.begin(), work.Counts.end(), uint8_t(0));
            for (uint64_t k = first; k < std::min(steps, first + ByteSteps); ++k)
            {
                ToDoubles(type, blocks[k], at, fill, count, work.Values);
                FindCells(bins, work.Values, count, work.Rows);
                FindRows(bins, work.Values, count, work.Rows);
                CountRows(work.Rows, count, work.Counts.data());
            }
            AddTile(work, bins.Rows, from, to, count);
            from = to;
        }
    }
}

} // end namespace bbflow
