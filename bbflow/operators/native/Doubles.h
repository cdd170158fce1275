#pragma once

#include "Fold.h"

namespace bbflow
{

/** Gives values as float64, missing ones as NaN. */
#define declare(CODE, T)                                                                           \
    void ToDoubles(const T *values, const T *fill, uint64_t count, double *doubles);
BBFLOW_FOREACH_FOLD_TYPE(declare)
#undef declare

/** The same for the type of a code. */
inline void ToDoubles(const int type, const void *values, const uint64_t at, const void *fill,
                      const uint64_t count, double *doubles)
{
    WithType(type,
             [&](auto own)
             {
                 using T = decltype(own);
                 ToDoubles(static_cast<const T *>(values) + at, static_cast<const T *>(fill), count,
                           doubles);
             });
}

} // end namespace bbflow
