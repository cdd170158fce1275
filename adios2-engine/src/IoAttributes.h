#pragma once

#include "Value.h"

#include <adios2.h>

namespace bbflow
{

/** Makes an IO show an attribute as a stream has it (FORMAT.md, "Attribute"): defines or changes
 * it.
 *  @throws std::runtime_error if the attribute is damaged */
void ShowAttribute(adios2::IO &io, const Value &attribute);

} // end namespace bbflow
