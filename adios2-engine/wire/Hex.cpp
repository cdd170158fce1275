#include "Hex.h"

#include <cstdint>
#include <stdexcept>

namespace bbflow
{

namespace
{

constexpr std::string_view Digits = "0123456789abcdef";

int DigitOf(const char letter)
{
    const char lower = letter >= 'A' && letter <= 'F' ? static_cast<char>(letter + 32) : letter;
    const size_t digit = Digits.find(lower);
    if (digit == std::string_view::npos)
    {
        throw std::runtime_error("bbflow: hexadecimal digits were expected");
    }
    return static_cast<int>(digit);
}

} // end empty namespace

std::string ToHex(const std::string_view bytes)
{
    std::string text;
    for (const char byte : bytes)
    {
        text.push_back(Digits[static_cast<uint8_t>(byte) >> 4]);
        text.push_back(Digits[static_cast<uint8_t>(byte) & 15]);
    }
    return text;
}

std::string FromHex(const std::string_view digits)
{
    std::string bytes;
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
    {
        bytes.push_back(static_cast<char>(DigitOf(digits[i]) << 4 | DigitOf(digits[i + 1])));
    }
    if (digits.size() % 2 != 0)
    {
        throw std::runtime_error("bbflow: an even number of hexadecimal digits was expected");
    }
    return bytes;
}

} // end namespace bbflow
