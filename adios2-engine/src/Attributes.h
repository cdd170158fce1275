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
    struct Sent
    {
        /** As ADIOS2 describes it, and its value as it went over the wire. */
        adios2::Params Description;
        std::string Encoded;
    };

    std::map<std::string, Sent> m_Sent; // by name
};

} // end namespace bbflow
