#pragma once

#include "Fold.h"

#include <cstdint>

namespace bbflow
{

constexpr int64_t GroupColumns = 8; ///< that follow each other and are brought together
constexpr int64_t SpanGroups = 64;
constexpr uint64_t BesidePlanes = 8;

/** Some groups of columns of a tile. */
struct Span
{
    int64_t Groups;
    const uint32_t *Firsts; ///< the first column of each
    const uint32_t *Later;  ///< of each, one that is brought later
    int64_t Stride;         ///< values from one column to the next
    int64_t Columns;        ///< of the plane: there are no groups of eight if there are fewer
};

#define declare(CODE, T)                                                                           \
    /** Adds all steps of a plane, column by column, in float64; of a single step missing values   \
     * become NaN. Gives false if a column of several steps has valid values in some of them only, \
     * or infinite ones: then the sums have no meaning.                                            \
     * @param blocks of each step the plane's first value                                          \
     * @param fill what stands for missing besides NaN; null for nothing                           \
     * @param sums of shape (columns) */                                                           \
    bool AddPlane(const T *const *blocks, uint64_t steps, const Span &span, const T *fill,         \
                  double *sums);                                                                   \
    /** The same of eight planes whose values of a column lie side by side.                        \
     * @param sums of shape (columns, planes) */                                                   \
    bool AddBeside(const T *const *blocks, uint64_t steps, const Span &span, const T *fill,        \
                   double *sums);
BBFLOW_FOREACH_FOLD_TYPE(declare)
#undef declare

} // end namespace bbflow
