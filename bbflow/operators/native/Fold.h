#pragma once

#include "Rows.h"

#include <cstdint>

/** Only the entry points are visible. */
#define BBFLOW_EXPORT extern "C" __attribute__((visibility("default")))

/** Accumulators, in the order of a task's arrays. */
enum BbflowAccumulator
{
    BbflowCount,
    BbflowShift,
    BbflowFirst,
    BbflowSecond,
    BbflowMin,
    BbflowMax,
    BbflowAccumulators
};

/** Keeps the values v with Lowest <= v <= Highest; both are of the blocks' type. */
struct BbflowFilter
{
    const void *Lowest;
    const void *Highest;
    const uint8_t *Skip; ///< for each step: nonzero if no value of it can pass
    BbflowRows *Rows;    ///< gets what passed
};

/** Blocks of one state: Target = Source (+) Blocks. Its mirror is in kernel.py. */
struct BbflowTask
{
    const void *Source[BbflowAccumulators]; ///< null: begin with the identity
    void *Target[BbflowAccumulators];       ///< null: not accumulated; may be equal to Source
    const void *const *Blocks;              ///< for each step `Points` values
    uint64_t Steps;
    uint64_t Points;
    const void *Fill; ///< a value that stands for 'missing', or null
    const BbflowFilter *Filters;
    uint64_t FilterCount;
};

namespace bbflow
{

/** Types of values, by the codes that callers have for them. */
#define BBFLOW_FOREACH_FOLD_TYPE(MACRO)                                                            \
    MACRO(0, int8_t)                                                                               \
    MACRO(1, int16_t)                                                                              \
    MACRO(2, int32_t)                                                                              \
    MACRO(3, int64_t)                                                                              \
    MACRO(4, uint8_t)                                                                              \
    MACRO(5, uint16_t)                                                                             \
    MACRO(6, uint32_t)                                                                             \
    MACRO(7, uint64_t)                                                                             \
    MACRO(8, float)                                                                                \
    MACRO(9, double)

/** Calls back with a value of the type that a code stands for. @return whether there is one */
template <class F>
bool WithType(const int type, const F &call)
{
    switch (type)
    {
#define with(CODE, T)                                                                              \
    case CODE:                                                                                     \
        call(T());                                                                                 \
        return true;
        BBFLOW_FOREACH_FOLD_TYPE(with)
#undef with
    }
    return false;
}

#define declare(CODE, T) void Fold(const BbflowTask &task, T);
BBFLOW_FOREACH_FOLD_TYPE(declare)
#undef declare

/** Folds the blocks of one state in one pass; std::bad_alloc if there is no memory for the rows. */
inline void Fold(const int type, const BbflowTask &task)
{
    WithType(type, [&](auto own) { Fold(task, own); });
}

} // end namespace bbflow
