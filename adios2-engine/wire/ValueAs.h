#pragma once

#include "Value.h"

#include <complex>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace bbflow
{

/** Reads what FORMAT.md calls a number, or a text, as a type of ADIOS2.
 *  @throws std::runtime_error if it is neither */
template <class T>
T ValueAs(const Value &value)
{
    if constexpr (std::is_same_v<T, std::string>)
    {
        return value.Text();
    }
    else if constexpr (std::is_arithmetic_v<T>)
    {
        const Value::Variant &held = value.Get();
        if (const double *number = std::get_if<double>(&held))
        {
            return static_cast<T>(*number);
        }
        if (const uint64_t *number = std::get_if<uint64_t>(&held))
        {
            return static_cast<T>(*number);
        }
        return static_cast<T>(value.AsSigned());
    }
    else
    {
        using R = typename T::value_type;
        const Value::Array &pair = value.Items();
        return {ValueAs<R>(pair.at(0)), ValueAs<R>(pair.at(1))};
    }
}

} // end namespace bbflow
