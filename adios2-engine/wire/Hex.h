#pragma once

#include <string>
#include <string_view>

namespace bbflow
{

/** Bytes as lower-case hexadecimal digits. */
std::string ToHex(std::string_view bytes);

/** The bytes of hexadecimal digits. @throws std::runtime_error if it is anything else */
std::string FromHex(std::string_view digits);

} // end namespace bbflow
