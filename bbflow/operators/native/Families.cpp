#include "Many.h"

#include <algorithm>
#include <new>
#include <utility>

namespace bbflow
{

namespace
{

/** Gives a field of the part, of values of a type. */
template <class T>
T *Field(const Part &part, const BbflowPlaces &state, const int field)
{
    return static_cast<T *>(state.Fields[field]) + part.First;
}

/** The same of the input's type. */
void *Values(const Part &part, const BbflowPlaces &state, const int field)
{
    return static_cast<char *>(state.Fields[field]) + part.First * TypeBytes[part.Type];
}

bool IsThere(const BbflowPlaces &state) { return state.Fields[0]; }

Sketch SketchOf(const Part &part, const BbflowPlaces &state)
{
    return {Field<int32_t>(part, state, 0), Field<int32_t>(part, state, 1), Values(part, state, 2),
            Values(part, state, 3), state.Stride};
}

SketchShape ShapeOf(const Part &part, const BbflowFamilyTask &state)
{
    return {part.Points, state.Size, state.Top};
}

BinCounts CountsOf(const Part &part, const BbflowPlaces &state)
{
    return {IsThere(state) ? Field<int32_t>(part, state, 0) : nullptr, state.Stride};
}

Grid GridOf(const Part &part, const BbflowPlaces &state)
{
    return {Field<int32_t>(part, state, 0), state.Stride,
            Field<int64_t>(part, state, 1), Field<int32_t>(part, state, 2),
            Field<int32_t>(part, state, 3), Field<int32_t>(part, state, 4),
            Field<int32_t>(part, state, 5)};
}

void CopyGrid(const uint64_t bins, const uint64_t points, const Grid &left, const Grid &target)
{
    for (uint64_t bin = 0; bin < bins; ++bin)
    {
        std::copy_n(left.Counts + bin * left.Stride, points, target.Counts + bin * target.Stride);
    }
    std::copy_n(left.Origin, points, target.Origin);
    std::copy_n(left.Exponent, points, target.Exponent);
    std::copy_n(left.Last, points, target.Last);
    std::copy_n(left.Below, points, target.Below);
    std::copy_n(left.Above, points, target.Above);
}

void ClearGrid(const uint64_t bins, const uint64_t points, const Grid &target)
{
    for (uint64_t bin = 0; bin < bins; ++bin)
    {
        std::fill_n(target.Counts + bin * target.Stride, points, 0);
    }
    std::fill_n(target.Origin, points, 0);
    std::fill_n(target.Exponent, points, 0);
    std::fill_n(target.Last, points, -1);
    std::fill_n(target.Below, points, 0);
    std::fill_n(target.Above, points, 0);
}

/** Makes a target what its left side is. */
void BeginGrid(const Part &part, const BbflowFamilyTask &state, const BbflowPlaces &left,
               const Grid &target)
{
    if (!IsThere(left))
    {
        ClearGrid(state.Size, part.Points, target);
    }
    else if (left.Fields[0] != state.Target.Fields[0])
    {
        CopyGrid(state.Size, part.Points, GridOf(part, left), target);
    }
}

void MergeSketches(const Part &part, const BbflowFamilyTask &state)
{
    const SketchShape shape = ShapeOf(part, state);
    const Sketch right = SketchOf(part, state.Right), target = SketchOf(part, state.Target);
    IsThere(state.Left) ? MergeSketches(part.Type, shape, SketchOf(part, state.Left), right, target)
                        : FoldSketches(part.Type, shape, &right, target, nullptr, 0, nullptr);
}

void MergeEdges(const Part &part, const BbflowFamilyTask &state)
{
    const BinCounts left = CountsOf(part, state.Left), right = CountsOf(part, state.Right),
                    target = CountsOf(part, state.Target);
    for (uint64_t row = 0; row < state.Bins->Rows; ++row)
    {
        const int32_t *more = right.Counts + row * right.Stride;
        int32_t *to = target.Counts + row * target.Stride;
        left.Counts ? AddCounts(left.Counts + row * left.Stride, more, to, part.Points)
                    : void(std::copy_n(more, part.Points, to));
    }
}

void MergeGrids(const Part &part, const BbflowFamilyTask &state)
{
    const BbflowPlaces *left = &state.Left, *right = &state.Right;
    if (right->Fields[0] == state.Target.Fields[0])
    {
        std::swap(left, right); // the order doesn't matter to what they come to
    }
    const Grid target = GridOf(part, state.Target);
    BeginGrid(part, state, *left, target);
    MergeGrid(state.Size, target, GridOf(part, *right), part.Points);
}

} // namespace

void FoldFamily(const Part &part, const BbflowFamilyTask &state, const void *const *blocks,
                const uint64_t steps, const void *fill)
{
    const bool begins = !IsThere(state.Left);
    if (state.Kind == BbflowSketches)
    {
        const Sketch left = begins ? Sketch{} : SketchOf(part, state.Left);
        FoldSketches(part.Type, ShapeOf(part, state), begins ? nullptr : &left,
                     SketchOf(part, state.Target), blocks, steps, fill);
    }
    else if (state.Kind == BbflowEdges)
    {
        FoldBins(part.Type, *state.Bins, CountsOf(part, state.Left), CountsOf(part, state.Target),
                 blocks, steps, part.Points, fill);
    }
    else
    {
        const Grid target = GridOf(part, state.Target);
        BeginGrid(part, state, state.Left, target);
        FoldGrid(part.Type, state.Size, target, blocks, steps, part.Points, fill);
    }
}

void MergeFamily(const Part &part, const BbflowFamilyTask &state)
{
    switch (state.Kind)
    {
    case BbflowSketches:
        return MergeSketches(part, state);
    case BbflowEdges:
        return MergeEdges(part, state);
    case BbflowGrids:
        return MergeGrids(part, state);
    }
}

} // end namespace bbflow

int bbflow_find(const int type, const BbflowFamilyTask *sketches, const uint64_t points,
                const int64_t *weights, void *result)
try
{
    using namespace bbflow;
    if (!WithType(type, [](auto) {}) || sketches->Kind != BbflowSketches)
    {
        return 2;
    }
    const Part all{type, 0, points};
    FindInSketches(type, ShapeOf(all, *sketches), SketchOf(all, sketches->Target), weights, result);
    return 0;
}
catch (const std::bad_alloc &)
{
    return 1;
}
