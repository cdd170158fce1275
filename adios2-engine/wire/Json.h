#pragma once

#include "Value.h"

#include <string_view>

namespace bbflow
{

/** Reads one JSON value.
 *  @throws std::runtime_error if the text is no JSON; the message says at which byte */
Value ParseJson(std::string_view text);

} // end namespace bbflow
