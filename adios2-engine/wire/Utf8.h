#pragma once

#include <string>
#include <string_view>

namespace bbflow
{

/** Whether bytes are UTF-8, without overlong forms and surrogates. */
bool IsUtf8(std::string_view text);

/** Returns text as UTF-8: as it is, or, if it isn't UTF-8, each of its bytes as a Latin-1
 * character.
 */
std::string ToUtf8(std::string_view text);

/** Appends one code point. */
void AppendUtf8(std::string &text, unsigned codePoint);

} // end namespace bbflow
