#pragma once

#include "Value.h"

#include <adios2.h>

#include <map>
#include <string>
#include <vector>

namespace bbflow
{

/** Finds the attributes of an IO that are new or changed. The plugin interface has no callback for
 * them, so they are looked through at each step. */
class Attributes
{
public:
    /** @param step of which they are first told */
    Value::Array TakeChanged(adios2::IO &io, size_t step);

    /** All that were told, for a node that hasn't heard of them, with the steps of which they were
     *  told: what has changed as it was first, as it was then, and as it is. */
    Value::Array Told() const;

private:
    struct Sent
    {
        /** As ADIOS2 describes it, and its value as it went over the wire. */
        adios2::Params Description;
        std::string Encoded;
        /** As it was told first, when it first changed, and last. */
        std::vector<Value> Told;
    };

    std::map<std::string, Sent> m_Sent; // by name
};

} // end namespace bbflow
