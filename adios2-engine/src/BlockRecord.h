#pragma once

#include "Value.h"

#include <adios2.h>

namespace bbflow
{

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

} // end namespace bbflow
