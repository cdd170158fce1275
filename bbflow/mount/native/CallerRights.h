#pragma once

#include "Caller.h"
#include "Value.h"

namespace bbflow
{

/** Adds to a request about names who makes it: `uid`, `gid`, and the `groups` of the process. */
Value::Map By(const Caller &caller, Value::Map request);

} // end namespace bbflow
