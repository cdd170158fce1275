#pragma once

#include "Fold.h"

namespace bbflow
{

/** Gives values as float64, missing ones as NaN. */
#define declare(CODE, T)                                                                           \
    void ToDoubles(const T *values, const T *fill, uint64_t count, double *doubles);
BBFLOW_FOREACH_FOLD_TYPE(declare)
#undef declare

/** The same for the type of a code. @return false if there is no such type */
inline bool ToDoubles(const int type, const void *values, const uint64_t at, const void *fill,
                      const uint64_t count, double *doubles)
{
    switch (type)
    {
#define convert(CODE, T)                                                                           \
    case CODE:                                                                                     \
        ToDoubles(static_cast<const T *>(values) + at, static_cast<const T *>(fill), count,        \
                  doubles);                                                                        \
        return true;
        BBFLOW_FOREACH_FOLD_TYPE(convert)
#undef convert
    }
    return false;
}

} // end namespace bbflow
