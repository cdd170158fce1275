#include "Utf8.h"

namespace bbflow
{

namespace
{

/** Bytes of the character that begins at `i`; 0 if it is none. */
size_t CharacterLength(const std::string_view text, const size_t i)
{
    const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned first = byte(i);
    if (first < 0x80)
    {
        return 1;
    }
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    // RFC 3629: 0xc0 and 0xc1 could only begin ASCII in two bytes, and above 0xf4 nothing is left.
    if (first < 0xc2 || first > 0xf4 || i + length > text.size())
    {
        return 0;
    }
    for (size_t k = 1; k < length; ++k)
    {
        if ((byte(i + k) & 0xc0) != 0x80)
        {
            return 0;
        }
    }
    const unsigned second = byte(i + 1);
    const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    const bool surrogate = first == 0xed && second >= 0xa0;
    const bool tooHigh = first == 0xf4 && second >= 0x90;
    return overlong || surrogate || tooHigh ? 0 : length;
}

} // end empty namespace

bool IsUtf8(const std::string_view text)
{
    for (size_t i = 0; i < text.size();)
    {
        const size_t length = CharacterLength(text, i);
        if (length == 0)
        {
            return false;
        }
        i += length;
    }
    return true;
}

void AppendUtf8(std::string &text, const unsigned codePoint)
{
    const auto push = [&](unsigned byte) { text.push_back(static_cast<char>(byte)); };
    if (codePoint < 0x80)
    {
        push(codePoint);
    }
    else if (codePoint < 0x800)
    {
        push(0xc0 | codePoint >> 6);
        push(0x80 | (codePoint & 0x3f));
    }
    else if (codePoint < 0x10000)
    {
        push(0xe0 | codePoint >> 12);
        push(0x80 | (codePoint >> 6 & 0x3f));
        push(0x80 | (codePoint & 0x3f));
    }
    else
    {
        push(0xf0 | codePoint >> 18);
        push(0x80 | (codePoint >> 12 & 0x3f));
        push(0x80 | (codePoint >> 6 & 0x3f));
        push(0x80 | (codePoint & 0x3f));
    }
}

std::string ToUtf8(const std::string_view text)
{
    if (IsUtf8(text))
    {
        return std::string(text);
    }
    std::string converted;
    for (const char character : text)
    {
        AppendUtf8(converted, static_cast<unsigned char>(character));
    }
    return converted;
}

} // end namespace bbflow
