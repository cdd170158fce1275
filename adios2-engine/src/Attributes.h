#pragma once

#include "Value.h"

#include <adios2.h>

#include <map>
#include <string>

namespace bbflow
{

/** Finds the attributes of an IO that are new or changed. The plugin interface has no callback for
 * them, so they are looked through at each step. */
class Attributes
{
public:
    Value::Array TakeChanged(adios2::IO &io);

private:
    std::map<std::string, std::string> m_Sent; // name to what was sent, encoded
};

} // end namespace bbflow
