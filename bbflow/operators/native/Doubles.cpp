#include "Doubles.h"

#include "Kinds.h"

#include <limits>

namespace bbflow
{

namespace
{

template <bool FILL, class T>
BBFLOW_INLINE void ToDoublesOf(const T *values, const T fill, const uint64_t count, double *doubles)
{
    constexpr double missing = std::numeric_limits<double>::quiet_NaN();
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < count; ++i)
    {
        doubles[i] = FILL && values[i] == fill ? missing : double(values[i]);
    }
}

} // namespace

#define define(CODE, T)                                                                            \
    BBFLOW_CLONES void ToDoubles(const T *values, const T *fill, const uint64_t count,             \
                                 double *doubles)                                                  \
    {                                                                                              \
        fill ? ToDoublesOf<true>(values, *fill, count, doubles)                                    \
             : ToDoublesOf<false>(values, T(), count, doubles);                                    \
    }
BBFLOW_FOREACH_FOLD_TYPE(define)
#undef define

} // end namespace bbflow
