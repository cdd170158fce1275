#pragma once

#include "Copy.h"
#include "Value.h"

#include <adios2.h>

#include <complex>
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

/** The part of a block's record that is known when it is Put. */
template <class T>
Value::Map DescribeBlock(const adios2::Variable<T> &variable)
{
    static const char *const kinds[] = {"Unknown",     "GlobalValue", "GlobalArray",
                                        "JoinedArray", "LocalValue",  "LocalArray"};
    const size_t kind = static_cast<size_t>(variable.ShapeID());
    return {{"name", variable.Name()},
            {"type", adios2::GetType<T>()},
            {"kind", kinds[kind < 6 ? kind : 0]},
            {"shape", Value::FromDims(variable.Shape())},
            {"start", Value::FromDims(variable.Start())},
            {"count", Value::FromDims(variable.Count())}};
}

/** Copies n values into the pool; what the pass finds of their range goes into the record. */
template <class T>
void LandBlock(char *target, const void *source, const size_t n, Value::Map &record)
{
    const T *values = static_cast<const T *>(source);
    if constexpr (std::is_void_v<Ranged<T>>)
    {
        StreamCopy(target, reinterpret_cast<const char *>(values), n * sizeof(T));
        FinishCopies();
    }
    else
    {
        using R = Ranged<T>;
        const Range<R> range = CopyWithRange<R>(target, reinterpret_cast<const R *>(values), n);
        if (!range.Empty())
        {
            record.emplace_back("min", NumberOf(range.Min));
            record.emplace_back("max", NumberOf(range.Max));
        }
    }
}

} // end namespace bbflow
