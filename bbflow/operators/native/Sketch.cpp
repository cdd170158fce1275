#include "Sketch.h"

#include "SketchFind.h"
#include "SketchMerge.h"

#include <new>

/** Calls a template for the type of a code. */
#define BBFLOW_SKETCH_CALL(...)                                                                    \
    try                                                                                            \
    {                                                                                              \
        switch (type)                                                                              \
        {                                                                                          \
            BBFLOW_FOREACH_FOLD_TYPE(__VA_ARGS__)                                                  \
        }                                                                                          \
    }                                                                                              \
    catch (const std::bad_alloc &)                                                                 \
    {                                                                                              \
        return 1;                                                                                  \
    }                                                                                              \
    return 2

int bbflow_sketch_fold(const int type, const BbflowSketchShape *shape, const BbflowSketch *state,
                       const void *const *blocks, const uint64_t steps, const void *fill)
{
#define fold(CODE, T)                                                                              \
    case CODE:                                                                                     \
        bbflow::FoldSketch<T>(*shape, *state, blocks, steps, fill);                                \
        return 0;
    BBFLOW_SKETCH_CALL(fold);
#undef fold
}

int bbflow_sketch_merge(const int type, const BbflowSketchShape *shape, const BbflowSketch *left,
                        const BbflowSketch *right, const BbflowSketch *target)
{
#define merge(CODE, T)                                                                             \
    case CODE:                                                                                     \
        bbflow::MergeSketch<T>(*shape, *left, *right, *target);                                    \
        return 0;
    BBFLOW_SKETCH_CALL(merge);
#undef merge
}

int bbflow_sketch_copy(const int type, const BbflowSketchShape *shape, const BbflowSketch *source,
                       const BbflowSketch *target)
{
#define copy(CODE, T)                                                                              \
    case CODE:                                                                                     \
        bbflow::CopySketch<T>(*shape, *source, *target);                                           \
        return 0;
    BBFLOW_SKETCH_CALL(copy);
#undef copy
}

int bbflow_sketch_find(const int type, const BbflowSketchShape *shape, const BbflowSketch *state,
                       const int64_t *weights, void *result)
{
#define find(CODE, T)                                                                              \
    case CODE:                                                                                     \
        bbflow::FindInSketch<T>(*shape, *state, weights, result);                                  \
        return 0;
    BBFLOW_SKETCH_CALL(find);
#undef find
}
