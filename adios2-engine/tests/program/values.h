#pragma once

#include <complex>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

/** Value number i; test_engine_types.py has the same formula. */
template <class T>
T ValueAt(const int i)
{
    const int base = i * 7 % 100;
    if constexpr (std::is_integral_v<T>)
    {
        return static_cast<T>(std::is_signed_v<T> ? base - 50 : base + 150);
    }
    else if constexpr (std::is_floating_point_v<T>)
    {
        return static_cast<T>(base - 50) / 4;
    }
    else
    {
        using R = typename T::value_type;
        return {static_cast<R>(base - 50) / 4, static_cast<R>(-base) / 2};
    }
}

/** n values from number `first` on; a real type's limits come at the places 0 and 1. */
template <class T>
std::vector<T> Values(const size_t n, const int first, const bool limits = false)
{
    std::vector<T> values;
    for (size_t i = 0; i < n; ++i)
    {
        values.push_back(ValueAt<T>(first + static_cast<int>(i)));
    }
    if constexpr (std::is_arithmetic_v<T>)
    {
        if (limits)
        {
            values.at(0) = std::numeric_limits<T>::lowest();
            values.at(1) = std::numeric_limits<T>::max();
        }
    }
    return values;
}
