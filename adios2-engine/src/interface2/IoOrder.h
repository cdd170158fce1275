#pragma once

#include <adios2.h>

#include <optional>

namespace bbflow
{

/** Whether the arrays of an IO are column-major; nothing if this ADIOS2 is made differently from
 * those that are known (see IoOrder.cpp). */
std::optional<bool> OrderOf(const adios2::IO &io);

} // end namespace bbflow
