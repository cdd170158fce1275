#pragma once

#include <cstdint>

/** What some points of a block weigh in the points of another grid: a sparse matrix, row by row. */
struct BbflowLinks
{
    uint64_t Rows;
    const int64_t *Starts;   ///< where each row's links begin; one more than rows
    const uint32_t *Columns; ///< points of the block's horizontal plane
    const double *Weights;
    const double *Totals; ///< of each row the sum of its weights
};

/** Where the planes of a block lie, counted in values: (step, plane, column) is at
 *  Blocks[step] + Offsets[plane] + column * Stride. */
struct BbflowPlanes
{
    const void *const *Blocks;
    uint64_t Steps;
    const int64_t *Offsets;
    uint64_t Planes;
    int64_t Stride;
    const void *Fill; ///< what stands for missing besides NaN; null for nothing
};

extern "C"
{
    /**
     * Gives sum(w * x) and sum(w) over the valid x of each row. All planes of all steps go along
     * with one pass over the links, as many at a time as the processor has registers for.
     * @param parts of shape (steps, 2, planes, rows)
     * @return 0, or 2 if there is no such type
     */
    __attribute__((visibility("default"))) int
    bbflow_remap(int type, const BbflowLinks *links, const BbflowPlanes *planes, double *parts);
}
