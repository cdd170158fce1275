#pragma once

#include "Value.h"

#include <string>
#include <string_view>

namespace bbflow
{

/** Returns a value's MessagePack, each number in its shortest form. Text that is not UTF-8 is taken
 * as Latin-1, since MessagePack's text must be UTF-8. */
std::string EncodeMessagePack(const Value &value);

/** Reads one value.
 *  @throws std::runtime_error if the bytes are no MessagePack or hold more than one value */
Value DecodeMessagePack(std::string_view bytes);

} // end namespace bbflow
