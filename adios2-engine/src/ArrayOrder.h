#pragma once

#include "Opened.h"
#include "Parameters.h"

#include <optional>

namespace bbflow
{

/** Whether the arrays of an IO are column-major: the parameter says so, else ADIOS2.
 *  @param opened what the preloaded library says
 *  @param io what the IO itself says; nothing if it can't be asked
 *  @throws std::invalid_argument if they contradict each other, or it isn't known in a process with
 *  ADIOS2's library for Fortran */
bool IsColumnMajor(const Parameters &parameters, const Opened &opened,
                   const std::optional<bool> &io);

} // end namespace bbflow
