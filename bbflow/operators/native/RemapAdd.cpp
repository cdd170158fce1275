#include "RemapAdd.h"

#include "Kinds.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace bbflow
{

namespace
{

using Eight = double __attribute__((vector_size(64)));
using EightMasks = int64_t __attribute__((vector_size(64)));

/** Missing values as NaN, which goes through the sum and is noticed at its end. */
template <bool FILL, class T>
BBFLOW_INLINE double Known(const T value, const T fill)
{
    return FILL && value == fill ? std::numeric_limits<double>::quiet_NaN() : double(value);
}

/** The same of eight values that follow each other. */
template <bool FILL, class T>
BBFLOW_INLINE void ReadEight(const T *values, const T fill, Eight &known)
{
    typedef T Values __attribute__((vector_size(8 * sizeof(T))));
    Values read;
    std::memcpy(&read, values, sizeof(read));
    known = __builtin_convertvector(read, Eight);
    if (FILL)
    {
        const Eight missing = __builtin_convertvector(read == (Values{} + fill), Eight);
        known = missing != 0.0 ? Eight{} + std::numeric_limits<double>::quiet_NaN() : known;
    }
}

/** Adds N steps of groups of columns, and asks for those of later ones. */
template <int N, bool BEGIN, bool FILL, class T>
BBFLOW_INLINE void AddSteps(const T *const *blocks, const Span &span, const T fill, double *sums)
{
    const T *steps[N];
    std::copy_n(blocks, N, steps);
    for (int64_t group = 0; group < span.Groups; ++group, sums += GroupColumns)
    {
        const int64_t first = span.Firsts[group];
        const int64_t later = span.Later[group];
        Eight sum;
        if (BEGIN)
        {
            ReadEight<FILL>(steps[0] + first, fill, sum);
            __builtin_prefetch(steps[0] + later);
        }
        else
        {
            std::memcpy(&sum, sums, sizeof(sum));
        }
        for (int k = BEGIN; k < N; ++k)
        {
            Eight values;
            ReadEight<FILL>(steps[k] + first, fill, values);
            __builtin_prefetch(steps[k] + later);
            sum += values;
        }
        std::memcpy(sums, &sum, sizeof(sum));
    }
}

template <bool FILL, class T>
BBFLOW_INLINE void AddGroups(const T *const *blocks, const uint64_t steps, const Span &span,
                             const T fill, double *sums)
{
    uint64_t k = std::min(steps, uint64_t(4));
    k == 1   ? AddSteps<1, true, FILL>(blocks, span, fill, sums)
    : k == 2 ? AddSteps<2, true, FILL>(blocks, span, fill, sums)
    : k == 3 ? AddSteps<3, true, FILL>(blocks, span, fill, sums)
             : AddSteps<4, true, FILL>(blocks, span, fill, sums);
    for (; k + 4 <= steps; k += 4)
    {
        AddSteps<4, false, FILL>(blocks + k, span, fill, sums);
    }
    for (; k < steps; ++k)
    {
        AddSteps<1, false, FILL>(blocks + k, span, fill, sums);
    }
}

/** Adds all steps of one column. */
template <bool FILL, class T>
BBFLOW_INLINE double AddColumn(const T *const *blocks, const uint64_t steps, const int64_t at,
                               const int64_t later, const T fill)
{
    double sum = Known<FILL>(blocks[0][at], fill);
    __builtin_prefetch(blocks[0] + later);
    for (uint64_t k = 1; k < steps; ++k)
    {
        sum += Known<FILL>(blocks[k][at], fill);
        __builtin_prefetch(blocks[k] + later);
    }
    return sum;
}

/** Whether each column has valid values in all steps, and a finite sum, or in none. */
template <bool FILL, class T>
BBFLOW_INLINE bool IsSteady(const T *const *blocks, const uint64_t steps, const Span &span,
                            const T fill, const double *sums)
{
    const int64_t columns = span.Groups * GroupColumns;
    int lacking = 0;
    for (int64_t i = 0; i < columns; ++i)
    {
        lacking |= !(sums[i] - sums[i] == 0);
    }
    if (lacking == 0)
    {
        return true;
    }
    const int64_t own = std::min(GroupColumns, span.Columns);
    int32_t valid[SpanGroups * GroupColumns] = {};
    for (uint64_t k = 0; k < steps; ++k)
    {
        for (int64_t group = 0; group < span.Groups; ++group)
        {
            const T *values = blocks[k] + span.Firsts[group] * span.Stride;
            for (int64_t i = 0; i < own; ++i)
            {
                const T value = values[i * span.Stride];
                valid[group * GroupColumns + i] |= (value == value) & !(FILL && value == fill);
            }
        }
    }
    int odd = 0;
    for (int64_t i = 0; i < columns; ++i)
    {
        odd |= valid[i] & !(sums[i] - sums[i] == 0);
    }
    return odd == 0;
}

/** Adds all steps of one plane. */
template <bool FILL, class T>
BBFLOW_INLINE bool AddPlaneOf(const T *const *blocks, const uint64_t steps, const Span &span,
                              const T fill, double *sums)
{
    const bool adjacent = span.Stride == 1 && span.Columns >= GroupColumns;
    if (adjacent)
    {
        AddGroups<FILL>(blocks, steps, span, fill, sums);
    }
    for (int64_t group = 0; !adjacent && group < span.Groups; ++group)
    {
        for (int64_t i = 0; i < std::min(GroupColumns, span.Columns); ++i)
        {
            const int64_t at = (span.Firsts[group] + i) * span.Stride;
            const int64_t later = (span.Later[group] + i) * span.Stride;
            sums[group * GroupColumns + i] = AddColumn<FILL>(blocks, steps, at, later, fill);
        }
    }
    return steps == 1 || IsSteady<FILL>(blocks, steps, span, fill, sums);
}

/** Adds all steps of a column of eight planes; gives those that have values in some steps only, or
 * infinite ones. */
template <bool FILL, class T>
BBFLOW_INLINE void AddAcross(const T *const *blocks, const uint64_t steps, const int64_t at,
                             const int64_t later, const T fill, double *out, EightMasks &odd)
{
    Eight sum;
    ReadEight<FILL>(blocks[0] + at, fill, sum);
    __builtin_prefetch(blocks[0] + later);
    if (steps > 1)
    {
        EightMasks valid = sum == sum;
        for (uint64_t k = 1; k < steps; ++k)
        {
            Eight values;
            ReadEight<FILL>(blocks[k] + at, fill, values);
            __builtin_prefetch(blocks[k] + later);
            valid |= values == values;
            sum += values;
        }
        odd |= valid & (sum - sum != 0.0);
    }
    std::memcpy(out, &sum, sizeof(sum));
}

/** Adds all steps of eight planes whose values of a column lie side by side. */
template <bool FILL, class T>
BBFLOW_INLINE bool AddBesideOf(const T *const *blocks, const uint64_t steps, const Span &span,
                               const T fill, double *out)
{
    EightMasks odd = {};
    for (int64_t group = 0; group < span.Groups; ++group)
    {
        for (int64_t i = 0; i < std::min(GroupColumns, span.Columns); ++i)
        {
            const int64_t at = (span.Firsts[group] + i) * span.Stride;
            const int64_t later = (span.Later[group] + i) * span.Stride;
            AddAcross<FILL>(blocks, steps, at, later, fill,
                            out + (group * GroupColumns + i) * int64_t(BesidePlanes), odd);
        }
    }
    int64_t any = 0;
    for (int plane = 0; plane < 8; ++plane)
    {
        any |= odd[plane];
    }
    return any == 0;
}

} // namespace

#define define(CODE, T)                                                                            \
    BBFLOW_CLONES bool AddPlane(const T *const *blocks, const uint64_t steps, const Span &span,    \
                                const T *fill, double *sums)                                       \
    {                                                                                              \
        return fill ? AddPlaneOf<true>(blocks, steps, span, *fill, sums)                           \
                    : AddPlaneOf<false>(blocks, steps, span, T(), sums);                           \
    }                                                                                              \
    BBFLOW_CLONES bool AddBeside(const T *const *blocks, const uint64_t steps, const Span &span,   \
                                 const T *fill, double *sums)                                      \
    {                                                                                              \
        return fill ? AddBesideOf<true>(blocks, steps, span, *fill, sums)                          \
                    : AddBesideOf<false>(blocks, steps, span, T(), sums);                          \
    }
BBFLOW_FOREACH_FOLD_TYPE(define)
#undef define

} // end namespace bbflow
