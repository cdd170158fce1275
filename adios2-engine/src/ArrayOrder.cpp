#include "ArrayOrder.h"

#include "LoadedObjects.h"

#include <stdexcept>
#include <string>

namespace bbflow
{

namespace
{

[[noreturn]] void Refuse(const Parameters &parameters, const std::string &reason)
{
    throw std::invalid_argument("bbflow: stream '" + parameters.Stream + "': " + reason +
                                ": set the parameter ArrayOrder to RowMajor (C, C++, Python) or "
                                "ColumnMajor (Fortran)");
}

} // end empty namespace

bool IsColumnMajor(const Parameters &parameters, const Opened &opened,
                   const std::optional<bool> &io)
{
    if (parameters.IsColumnMajor)
    {
        return *parameters.IsColumnMajor;
    }
    if (io && opened.IsColumnMajor && *io != *opened.IsColumnMajor)
    {
        Refuse(parameters,
               "it is not clear whether its arrays are in the order of C or of Fortran");
    }
    if (io || opened.IsColumnMajor)
    {
        return io ? *io : *opened.IsColumnMajor;
    }
    if (LoadedObject("libadios2", "_fortran"))
    {
        Refuse(parameters,
               "this ADIOS2 doesn't say whether its arrays are in the order of Fortran");
    }
    return false;
}

} // end namespace bbflow
