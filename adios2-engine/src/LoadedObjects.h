#pragma once

#include <optional>
#include <string>

namespace bbflow
{

/** Path of the first shared object in this process whose file name begins and goes on like this;
 *  nothing if there is none.
 *  @param piece what the name has somewhere behind its beginning */
std::optional<std::string> LoadedObject(const std::string &beginning, const std::string &piece);

} // end namespace bbflow
