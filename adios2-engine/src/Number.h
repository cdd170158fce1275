#pragma once

#include "Value.h"

#include <string>
#include <type_traits>

namespace bbflow
{

/** What FORMAT.md calls a number: the nearest of int64, uint64, double, text and pairs. */
template <class T>
Value NumberOf(const T &value)
{
    if constexpr (std::is_same_v<T, std::string>)
    {
        return value;
    }
    else if constexpr (std::is_floating_point_v<T>)
    {
        return static_cast<double>(value);
    }
    else if constexpr (std::is_unsigned_v<T>)
    {
        return uint64_t{value};
    }
    else if constexpr (std::is_integral_v<T>)
    {
        return int64_t{value};
    }
    else
    {
        return Value::Array{static_cast<double>(value.real()), static_cast<double>(value.imag())};
    }
}

} // end namespace bbflow
