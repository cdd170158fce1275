#include "Merge.h"

#include "Kinds.h"

namespace bbflow
{

namespace
{

template <int RULE, class T>
BBFLOW_INLINE void MergeRow(const T *left, const T *right, T *target, const uint64_t points)
{
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < points; ++i)
    {
        const T a = left[i];
        const T b = right[i];
        target[i] = RULE == BbflowAdd ? T(a + b) : (RULE == BbflowLeast ? b < a : b > a) ? b : a;
    }
}

template <class T>
BBFLOW_INLINE T *Row(const BbflowNumbers &numbers, const uint64_t row)
{
    return reinterpret_cast<T *>(static_cast<char *>(numbers.First) + row * numbers.Stride);
}

template <int RULE, class T>
BBFLOW_INLINE void MergeRows(const BbflowNumbers &left, const BbflowNumbers &right,
                             const BbflowNumbers &target, const uint64_t rows,
                             const uint64_t points)
{
    for (uint64_t row = 0; row < rows; ++row)
    {
        MergeRow<RULE>(Row<T>(left, row), Row<T>(right, row), Row<T>(target, row), points);
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

} // namespace

// Each is a function of its own, with a clone for each instruction set.
#define define(CODE, T)                                                                            \
    BBFLOW_CLONES void MergeAdd(const BbflowNumbers &left, const BbflowNumbers &right,             \
                                const BbflowNumbers &target, const uint64_t rows,                  \
                                const uint64_t points, T)                                          \
    {                                                                                              \
        MergeRows<BbflowAdd, T>(left, right, target, rows, points);                                \
    }                                                                                              \
    BBFLOW_CLONES void MergeLeast(const BbflowNumbers &left, const BbflowNumbers &right,           \
                                  const BbflowNumbers &target, const uint64_t rows,                \
                                  const uint64_t points, T)                                        \
    {                                                                                              \
        MergeRows<BbflowLeast, T>(left, right, target, rows, points);                              \
    }                                                                                              \
    BBFLOW_CLONES void MergeMost(const BbflowNumbers &left, const BbflowNumbers &right,            \
                                 const BbflowNumbers &target, const uint64_t rows,                 \
                                 const uint64_t points, T)                                         \
    {                                                                                              \
        MergeRows<BbflowMost, T>(left, right, target, rows, points);                               \
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

} // end namespace bbflow

int bbflow_merge(const int type, const int rule, const BbflowNumbers *left,
                 const BbflowNumbers *right, const BbflowNumbers *target, const uint64_t rows,
                 const uint64_t points)
{
    if (rule < BbflowAdd || rule > BbflowMost)
    {
        return 2;
    }
    switch (type)
    {
#define merge(CODE, T)                                                                             \
    case CODE:                                                                                     \
        rule == BbflowAdd     ? bbflow::MergeAdd(*left, *right, *target, rows, points, T())        \
        : rule == BbflowLeast ? bbflow::MergeLeast(*left, *right, *target, rows, points, T())      \
                              : bbflow::MergeMost(*left, *right, *target, rows, points, T());      \
        return 0;
        BBFLOW_FOREACH_FOLD_TYPE(merge)
#undef merge
    }
    return 2;
}

int bbflow_merge_moments(const int type, const void *const *left, const void *const *right,
                         void *const *target, const uint64_t points)
{
    switch (type)
    {
#define merge(CODE, T)                                                                             \
    case CODE:                                                                                     \
    {                                                                                              \
        const auto to = bbflow::FieldsAt<T>(target, 0);                                            \
        const auto one = bbflow::FieldsAt<T>(left, 0);                                             \
        const auto other = bbflow::FieldsAt<T>(right, 0);                                          \
        to.Second ? bbflow::MergeBoth(one, other, to, points)                                      \
                  : bbflow::MergeFirst(one, other, to, points);                                    \
        return 0;                                                                                  \
    }
        BBFLOW_FOREACH_FOLD_TYPE(merge)
#undef merge
    }
    return 2;
}
