#include "MinMax.h"

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__)
#define BBFLOW_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define BBFLOW_CLONES
#endif

namespace bbflow
{

namespace
{

/** Independent lanes hide the latency of min and max, and `v < m ? v : m` skips a NaN in v. With
 * fewer than 32 lanes GCC unrolls the inner loop before it vectorises, and that is three times
 * slower. */
template <class T>
inline __attribute__((always_inline)) void WidenLanes(Range<T> &range, const T *values, size_t n)
{
    constexpr size_t lanes = sizeof(T) > 4 ? 32 : 128 / sizeof(T);
    T min[lanes];
    T max[lanes];
    for (size_t lane = 0; lane < lanes; ++lane)
    {
        min[lane] = range.Min;
        max[lane] = range.Max;
    }
    size_t i = 0;
    for (; i + lanes <= n; i += lanes)
    {
        for (size_t lane = 0; lane < lanes; ++lane)
        {
            const T value = values[i + lane];
            min[lane] = value < min[lane] ? value : min[lane];
            max[lane] = value > max[lane] ? value : max[lane];
        }
    }
    for (size_t lane = 0; i < n; ++i, ++lane)
    {
        min[lane] = values[i] < min[lane] ? values[i] : min[lane];
        max[lane] = values[i] > max[lane] ? values[i] : max[lane];
    }
    for (size_t lane = 0; lane < lanes; ++lane)
    {
        range.Min = min[lane] < range.Min ? min[lane] : range.Min;
        range.Max = max[lane] > range.Max ? max[lane] : range.Max;
    }
}

} // end empty namespace

#define define(T)                                                                                  \
    BBFLOW_CLONES void Widen(Range<T> &range, const T *values, const size_t n)                     \
    {                                                                                              \
        WidenLanes(range, values, n);                                                              \
    }
BBFLOW_FOREACH_MINMAX_TYPE(define)
#undef define

} // end namespace bbflow
