#include "Many.h"

#include <algorithm>
#include <limits>

namespace bbflow
{

namespace
{

constexpr int CountType = 2; ///< of int32_t

/** Gives a field of the part, of values of a type, in a state. */
template <class T>
T *Field(const FamilyPart &part, const void *state, const int field)
{
    const char *begin = static_cast<const char *>(state) + part.Family.Offsets[field];
    return reinterpret_cast<T *>(const_cast<char *>(begin)) + part.First;
}

/** The same of the input's type. */
void *Values(const FamilyPart &part, const void *state, const int field)
{
    return Field<char>(part, state, field) + part.First * (TypeBytes[part.Type] - 1);
}

BbflowSketch SketchOf(const FamilyPart &part, const void *state)
{
    return {Field<int32_t>(part, state, 0), Field<int32_t>(part, state, 1), Values(part, state, 2),
            Values(part, state, 3), part.Of};
}

void FillLowest(const int type, void *values, const uint64_t points)
{
    switch (type)
    {
#define lowest(CODE, T)                                                                            \
    case CODE:                                                                                     \
        std::fill_n(static_cast<T *>(values), points,                                              \
                    std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()     \
                                                         : std::numeric_limits<T>::lowest());      \
        return;
        BBFLOW_FOREACH_FOLD_TYPE(lowest)
#undef lowest
    }
}

int FoldSketches(const FamilyPart &part, const BbflowFamilyTask &state, const void *const *blocks,
                 const uint64_t steps, const void *fill)
{
    const BbflowSketchShape shape{part.Points, part.Family.Size, part.Family.Top};
    const BbflowSketch target = SketchOf(part, state.Target);
    if (!state.Left)
    {
        // Nothing seen, so whatever the rows are, they hold nothing.
        std::fill_n(target.Seen, part.Points, 0);
        std::fill_n(target.Count, part.Points, 0);
        FillLowest(part.Type, target.Max, part.Points);
    }
    else if (state.Left != state.Target)
    {
        const BbflowSketch left = SketchOf(part, state.Left);
        if (const int failure = bbflow_sketch_copy(part.Type, &shape, &left, &target))
        {
            return failure;
        }
    }
    return bbflow_sketch_fold(part.Type, &shape, &target, blocks, steps, fill);
}

int FoldEdges(const FamilyPart &part, const BbflowFamilyTask &state, const void *const *blocks,
              const uint64_t steps, const void *fill)
{
    const int32_t *left = state.Left ? Field<int32_t>(part, state.Left, 0) : nullptr;
    return bbflow_bins_fold(part.Type, part.Family.Bins, left, part.Of,
                            Field<int32_t>(part, state.Target, 0), part.Of, blocks, steps,
                            part.Points, fill);
}

BbflowGrid GridOf(const FamilyPart &part, const void *state)
{
    return {Field<int32_t>(part, state, 0), part.Of,
            Field<int64_t>(part, state, 1), Field<int32_t>(part, state, 2),
            Field<int32_t>(part, state, 3), Field<int32_t>(part, state, 4),
            Field<int32_t>(part, state, 5)};
}

void CopyGrid(const FamilyPart &part, const BbflowGrid &left, const BbflowGrid &target)
{
    const uint64_t points = part.Points;
    for (uint64_t bin = 0; bin < part.Family.Size; ++bin)
    {
        std::copy_n(left.Counts + bin * left.Stride, points, target.Counts + bin * target.Stride);
    }
    std::copy_n(left.Origin, points, target.Origin);
    std::copy_n(left.Exponent, points, target.Exponent);
    std::copy_n(left.Last, points, target.Last);
    std::copy_n(left.Below, points, target.Below);
    std::copy_n(left.Above, points, target.Above);
}

void ClearGrid(const FamilyPart &part, const BbflowGrid &target)
{
    const uint64_t points = part.Points;
    for (uint64_t bin = 0; bin < part.Family.Size; ++bin)
    {
        std::fill_n(target.Counts + bin * target.Stride, points, 0);
    }
    std::fill_n(target.Origin, points, 0);
    std::fill_n(target.Exponent, points, 0);
    std::fill_n(target.Last, points, -1);
    std::fill_n(target.Below, points, 0);
    std::fill_n(target.Above, points, 0);
}

int FoldGrids(const FamilyPart &part, const BbflowFamilyTask &state, const void *const *blocks,
              const uint64_t steps, const void *fill)
{
    const BbflowGrid target = GridOf(part, state.Target);
    if (!state.Left)
    {
        ClearGrid(part, target);
    }
    else if (state.Left != state.Target)
    {
        CopyGrid(part, GridOf(part, state.Left), target);
    }
    return bbflow_grid_fold(part.Type, part.Family.Size, &target, blocks, steps, part.Points, fill);
}

int MergeSketches(const FamilyPart &part, const BbflowFamilyTask &state)
{
    const BbflowSketchShape shape{part.Points, part.Family.Size, part.Family.Top};
    const BbflowSketch left = SketchOf(part, state.Left);
    const BbflowSketch right = SketchOf(part, state.Right);
    const BbflowSketch target = SketchOf(part, state.Target);
    return bbflow_sketch_merge(part.Type, &shape, &left, &right, &target);
}

int MergeEdges(const FamilyPart &part, const BbflowFamilyTask &state)
{
    const uint64_t stride = part.Of * sizeof(int32_t);
    const BbflowNumbers left{Field<int32_t>(part, state.Left, 0), stride};
    const BbflowNumbers right{Field<int32_t>(part, state.Right, 0), stride};
    const BbflowNumbers target{Field<int32_t>(part, state.Target, 0), stride};
    return bbflow_merge(CountType, BbflowAdd, &left, &right, &target, part.Family.Bins->Rows,
                        part.Points);
}

int MergeGrids(const FamilyPart &part, const BbflowFamilyTask &state)
{
    const BbflowGrid target = GridOf(part, state.Target);
    const BbflowGrid right = GridOf(part, state.Right);
    CopyGrid(part, GridOf(part, state.Left), target);
    return bbflow_grid_merge(part.Family.Size, &target, &right, part.Points);
}

} // namespace

int FoldFamily(const FamilyPart &part, const BbflowFamilyTask &state, const void *const *blocks,
               const uint64_t steps, const void *fill)
{
    switch (part.Family.Kind)
    {
    case BbflowSketches:
        return FoldSketches(part, state, blocks, steps, fill);
    case BbflowEdges:
        return FoldEdges(part, state, blocks, steps, fill);
    case BbflowGrids:
        return FoldGrids(part, state, blocks, steps, fill);
    }
    return 2;
}

int MergeFamily(const FamilyPart &part, const BbflowFamilyTask &state)
{
    switch (part.Family.Kind)
    {
    case BbflowSketches:
        return MergeSketches(part, state);
    case BbflowEdges:
        return MergeEdges(part, state);
    case BbflowGrids:
        return MergeGrids(part, state);
    }
    return 2;
}

} // end namespace bbflow
