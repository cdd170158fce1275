#include "Sketch.h"

#include "SketchFind.h"
#include "SketchMerge.h"

namespace bbflow
{

namespace
{

/** Nothing seen, so whatever the rows are, they hold nothing. */
template <class T>
void ClearSketch(const SketchShape &shape, const Sketch &target)
{
    std::fill_n(target.Seen, shape.Points, 0);
    std::fill_n(target.Count, shape.Points, 0);
    std::fill_n(static_cast<T *>(target.Max), shape.Points, Lowest<T>());
}

} // namespace

void FoldSketches(const int type, const SketchShape &shape, const Sketch *source,
                  const Sketch &target, const void *const *blocks, const uint64_t steps,
                  const void *fill)
{
    WithType(type,
             [&](auto own)
             {
                 using T = decltype(own);
                 if (!source)
                 {
                     ClearSketch<T>(shape, target);
                 }
                 else if (source->Values != target.Values)
                 {
                     CopySketch<T>(shape, *source, target);
                 }
                 FoldSketch<T>(shape, target, blocks, steps, fill);
             });
}

void MergeSketches(const int type, const SketchShape &shape, const Sketch &left,
                   const Sketch &right, const Sketch &target)
{
    WithType(type, [&](auto own) { MergeSketch<decltype(own)>(shape, left, right, target); });
}

void FindInSketches(const int type, const SketchShape &shape, const Sketch &state,
                    const int64_t *weights, void *result)
{
    WithType(type, [&](auto own) { FindInSketch<decltype(own)>(shape, state, weights, result); });
}

} // end namespace bbflow
