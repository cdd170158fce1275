#include "RemapRows.h"

#include "Kinds.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#if defined(__clang__)
#define BBFLOW_SHUFFLE(one, other, ...) __builtin_shufflevector(one, other, __VA_ARGS__)
#else
#define BBFLOW_SHUFFLE(one, other, ...)                                                            \
    __builtin_shuffle(one, other, (int64_t __attribute__((vector_size(32)))){__VA_ARGS__})
#endif

namespace bbflow
{

namespace
{

using Two = double __attribute__((vector_size(16)));
using Four = double __attribute__((vector_size(32)));

BBFLOW_INLINE void TurnTwo(const double *planes, double *out, const uint64_t count)
{
    Two one;
    Two other;
    std::memcpy(&one, planes, sizeof(one));
    std::memcpy(&other, planes + PlaneStride, sizeof(other));
    const Two left = {one[0], other[0]};
    const Two right = {one[1], other[1]};
    std::memcpy(out, &left, sizeof(left));
    std::memcpy(out + count, &right, sizeof(right));
}

/** Four columns of four planes: first two by two, then the halves. */
BBFLOW_INLINE void TurnFour(const double *planes, double *out, const uint64_t count)
{
    Four rows[4];
    for (uint64_t plane = 0; plane < 4; ++plane)
    {
        std::memcpy(&rows[plane], planes + plane * PlaneStride, sizeof(Four));
    }
    const Four even01 = BBFLOW_SHUFFLE(rows[0], rows[1], 0, 4, 2, 6);
    const Four odd01 = BBFLOW_SHUFFLE(rows[0], rows[1], 1, 5, 3, 7);
    const Four even23 = BBFLOW_SHUFFLE(rows[2], rows[3], 0, 4, 2, 6);
    const Four odd23 = BBFLOW_SHUFFLE(rows[2], rows[3], 1, 5, 3, 7);
    const Four columns[4] = {
        BBFLOW_SHUFFLE(even01, even23, 0, 1, 4, 5), BBFLOW_SHUFFLE(odd01, odd23, 0, 1, 4, 5),
        BBFLOW_SHUFFLE(even01, even23, 2, 3, 6, 7), BBFLOW_SHUFFLE(odd01, odd23, 2, 3, 6, 7)};
    for (uint64_t column = 0; column < 4; ++column)
    {
        std::memcpy(out + column * count, &columns[column], sizeof(Four));
    }
}

template <uint64_t COUNT>
BBFLOW_INLINE void Turn(const double *planes, const uint64_t n, double *out)
{
    constexpr uint64_t side = COUNT < 4 ? 2 : 4;
    for (uint64_t i = 0; i < n; i += side)
    {
        for (uint64_t plane = 0; plane < COUNT; plane += side)
        {
            const double *from = planes + plane * PlaneStride + i;
            double *to = out + i * COUNT + plane;
            side == 2 ? TurnTwo(from, to, COUNT) : TurnFour(from, to, COUNT);
        }
    }
}

/** What is valid of a row in which something is missing, or infinite. */
template <uint64_t COUNT>
BBFLOW_INLINE void ReduceValid(const BbflowLinks &links, const LinkTile &tile, const int64_t from,
                               const int64_t to, const uint64_t plane, RowSums<COUNT> &row)
{
    row.Sums[plane] = 0;
    row.Weights[plane] = 0;
    row.Lacking[plane] = true;
    for (int64_t k = from; k < to; ++k)
    {
        const double value = tile.Values[tile.Places[k] * COUNT + plane];
        if (value == value)
        {
            row.Sums[plane] += links.Weights[k] * value;
            row.Weights[plane] += links.Weights[k];
        }
    }
}

/** Whether any is missing, or infinite; or so large that it doesn't matter. */
template <uint64_t COUNT>
BBFLOW_INLINE bool AnyLacking(const double *sums)
{
    double halves[COUNT];
    std::memcpy(halves, sums, sizeof(halves));
    for (uint64_t half = COUNT / 2; half > 0; half /= 2)
    {
        for (uint64_t plane = 0; plane < half; ++plane)
        {
            halves[plane] += halves[plane + half];
        }
    }
    return halves[0] - halves[0] != 0;
}

template <uint64_t COUNT>
BBFLOW_INLINE void ReduceLinks(const BbflowLinks &links, const LinkTile &tile, const int64_t from,
                               const int64_t to, const double total, RowSums<COUNT> &row)
{
    double sums[COUNT] = {};
    double others[COUNT] = {}; // every other link: one needn't wait for the one before
    int64_t k = from;
    for (; k + 1 < to; k += 2)
    {
        const double *one = tile.Values + tile.Places[k] * COUNT;
        const double *other = tile.Values + tile.Places[k + 1] * COUNT;
        for (uint64_t plane = 0; plane < COUNT; ++plane)
        {
            sums[plane] += links.Weights[k] * one[plane];
            others[plane] += links.Weights[k + 1] * other[plane];
        }
    }
    for (; k < to; ++k)
    {
        const double *one = tile.Values + tile.Places[k] * COUNT;
        for (uint64_t plane = 0; plane < COUNT; ++plane)
        {
            sums[plane] += links.Weights[k] * one[plane];
        }
    }
    for (uint64_t plane = 0; plane < COUNT; ++plane)
    {
        row.Sums[plane] = sums[plane] + others[plane];
        row.Weights[plane] = total;
        row.Lacking[plane] = false;
    }
    if (AnyLacking<COUNT>(row.Sums))
    {
        for (uint64_t plane = 0; plane < COUNT; ++plane)
        {
            if (row.Sums[plane] - row.Sums[plane] != 0)
            {
                ReduceValid(links, tile, from, to, plane, row);
            }
        }
    }
}

/** Joins what tiles have of a row. */
template <uint64_t COUNT>
BBFLOW_INLINE void JoinPart(const BbflowLinks &links, const RowSums<COUNT> &part,
                            const uint64_t row, const bool begins, const bool ends,
                            Results &results)
{
    RowSums<PlanesAtOnce> &all = results.Begun;
    for (uint64_t plane = 0; plane < COUNT; ++plane)
    {
        all.Sums[plane] = part.Sums[plane] + (begins ? 0 : all.Sums[plane]);
        all.Weights[plane] = part.Weights[plane] + (begins ? 0 : all.Weights[plane]);
        all.Lacking[plane] = part.Lacking[plane] || (!begins && all.Lacking[plane]);
        if (ends)
        {
            results.Sums[plane][row] = all.Sums[plane];
            results.Weights[plane][row] =
                all.Lacking[plane] ? all.Weights[plane] : links.Totals[row];
        }
    }
}

template <uint64_t COUNT>
BBFLOW_INLINE uint64_t ReduceRows(const BbflowLinks &links, const LinkTile &tile, uint64_t row,
                                  Results &results)
{
    for (int64_t k = tile.Begin; k < tile.End;)
    {
        const int64_t to = std::min(links.Starts[row + 1], tile.End);
        const bool begins = k == links.Starts[row];
        const bool ends = to == links.Starts[row + 1];
        RowSums<COUNT> sums;
        if (begins && ends)
        {
            ReduceLinks<COUNT>(links, tile, k, to, links.Totals[row], sums);
            for (uint64_t plane = 0; plane < COUNT; ++plane)
            {
                results.Sums[plane][row] = sums.Sums[plane];
                results.Weights[plane][row] = sums.Weights[plane];
            }
        }
        else
        {
            const double total = std::accumulate(links.Weights + k, links.Weights + to, 0.0);
            ReduceLinks<COUNT>(links, tile, k, to, total, sums);
            JoinPart<COUNT>(links, sums, row, begins, ends, results);
        }
        k = to;
        row += ends;
    }
    return row;
}

} // namespace

BBFLOW_CLONES void TurnPlanes(const uint64_t count, const double *planes, const uint64_t n,
                              double *out)
{
    count == 8   ? Turn<8>(planes, n, out)
    : count == 4 ? Turn<4>(planes, n, out)
                 : Turn<2>(planes, n, out);
}

BBFLOW_CLONES uint64_t ReduceTile(const uint64_t count, const BbflowLinks &links,
                                  const LinkTile &tile, const uint64_t row, Results &results)
{
    return count == 8   ? ReduceRows<8>(links, tile, row, results)
           : count == 4 ? ReduceRows<4>(links, tile, row, results)
           : count == 2 ? ReduceRows<2>(links, tile, row, results)
                        : ReduceRows<1>(links, tile, row, results);
}

} // end namespace bbflow
