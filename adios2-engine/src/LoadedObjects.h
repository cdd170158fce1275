#pragma once

#include <dlfcn.h>
#include <optional>
#include <string>

namespace bbflow
{

/** Path of the first shared object in this process whose file name begins and continues like this;
 *  nothing if there is none.
 *  @param piece what the name has somewhere behind its beginning */
std::optional<std::string> LoadedObject(const std::string &beginning, const std::string &piece);

/** Finds a function of an open library; false if it has none of that name. */
template <class Function>
bool FindFunction(void *library, const char *name, Function &function)
{
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

} // end namespace bbflow
