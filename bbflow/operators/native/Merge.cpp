#include "Merge.h"

#include "Kinds.h"

namespace bbflow
{

namespace
{

template <bool LEAST, class T>
BBFLOW_INLINE void MergeExtremes(const T *left, const T *right, T *target, const uint64_t points)
{
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < points; ++i)
    {
        const T a = left[i];
        const T b = right[i];
        target[i] = (LEAST ? b < a : b > a) ? b : a;
    }
}

/**
 * Adds moments, the right ones rebased on the left shift: with d = right shift - left shift and n
 * right values, first' = first + n d and second' = second + 2 d first + n d**2 (Chan, Golub and
 * LeVeque, "Algorithms for computing the sample variance", The American Statistician 37, 1983).
 * The additions are in the order in which they were always made.
 */
template <bool SECOND, class T>
BBFLOW_INLINE void MergeMoments(const Fields<T> left, const Fields<T> right, const Fields<T> target,
                                const uint64_t points)
{
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < points; ++i)
    {
        const T shift = left.Count[i] == 0 ? right.Shift[i] : left.Shift[i];
        const double count = double(right.Count[i]);
        const double first = right.First[i];
        const double d = double(right.Shift[i]) - double(shift);
        if (SECOND)
        {
            const double rebased = right.Second[i] + 2 * d * first + count * (d * d);
            target.Second[i] = left.Second[i] + rebased;
        }
        target.First[i] = left.First[i] + first + count * d;
        target.Shift[i] = shift;
    }
}

// Each is a function of its own, with a clone for each instruction set.
#define define(CODE, T)                                                                            \
    BBFLOW_CLONES void MergeLeast(const T *left, const T *right, T *target, const uint64_t points) \
    {                                                                                              \
        MergeExtremes<true>(left, right, target, points);                                          \
    }                                                                                              \
    BBFLOW_CLONES void MergeMost(const T *left, const T *right, T *target, const uint64_t points)  \
    {                                                                                              \
        MergeExtremes<false>(left, right, target, points);                                         \
    }                                                                                              \
    BBFLOW_CLONES void MergeFirst(const Fields<T> &left, const Fields<T> &right,                   \
                                  const Fields<T> &target, const uint64_t points)                  \
    {                                                                                              \
        MergeMoments<false>(left, right, target, points);                                          \
    }                                                                                              \
    BBFLOW_CLONES void MergeBoth(const Fields<T> &left, const Fields<T> &right,                    \
                                 const Fields<T> &target, const uint64_t points)                   \
    {                                                                                              \
        MergeMoments<true>(left, right, target, points);                                           \
    }
BBFLOW_FOREACH_FOLD_TYPE(define)
#undef define

template <class T>
void MergeFields(const Fields<T> &left, const Fields<T> &right, const Fields<T> &target,
                 const uint64_t points)
{
    if (target.Shift) // first: it needs the left side's counts
    {
        target.Second ? MergeBoth(left, right, target, points)
                      : MergeFirst(left, right, target, points);
    }
    if (target.Count)
    {
        AddCounts(left.Count, right.Count, target.Count, points);
    }
    if (target.Min)
    {
        MergeLeast(left.Min, right.Min, target.Min, points);
    }
    if (target.Max)
    {
        MergeMost(left.Max, right.Max, target.Max, points);
    }
}

} // namespace

BBFLOW_CLONES void AddCounts(const int32_t *left, const int32_t *right, int32_t *target,
                             const uint64_t points)
{
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < points; ++i)
    {
        target[i] = left[i] + right[i];
    }
}

void Merge(const int type, const BbflowMergeTask &task)
{
    WithType(type,
             [&](auto own)
             {
                 using T = decltype(own);
                 MergeFields(FieldsAt<T>(task.Left, 0), FieldsAt<T>(task.Right, 0),
                             FieldsAt<T>(task.Target, 0), task.Points);
             });
}

} // end namespace bbflow
