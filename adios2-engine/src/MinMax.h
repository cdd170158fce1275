#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace bbflow
{

/** Smallest and largest of the values seen so far that are not NaN; Min > Max while there are none.
 */
template <class T>
struct Range
{
    T Min = std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                 : std::numeric_limits<T>::max();
    T Max = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                 : std::numeric_limits<T>::lowest();

    bool Empty() const { return Min > Max; }
};

/** Widens a range by n values; picks the best instruction set of the CPU at load time. */
#define BBFLOW_FOREACH_MINMAX_TYPE(MACRO)                                                          \
    MACRO(int8_t)                                                                                  \
    MACRO(int16_t)                                                                                 \
    MACRO(int32_t)                                                                                 \
    MACRO(int64_t)                                                                                 \
    MACRO(uint8_t)                                                                                 \
    MACRO(uint16_t)                                                                                \
    MACRO(uint32_t)                                                                                \
    MACRO(uint64_t)                                                                                \
    MACRO(float)                                                                                   \
    MACRO(double)

#define declare(T) void Widen(Range<T> &range, const T *values, size_t n);
BBFLOW_FOREACH_MINMAX_TYPE(declare)
#undef declare

} // end namespace bbflow
