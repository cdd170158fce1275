#pragma once

#include <locale>
#include <optional>
#include <sstream>
#include <string>

namespace bbflow
{

/** A number with a point before its fraction; nothing if the text is anything else. */
inline std::optional<double> ReadDecimal(const std::string &text)
{
    std::istringstream in(text);
    in.imbue(std::locale::classic()); // the program's may have a comma for the point
    double value = 0;
    const bool isWhole = in >> value && in.peek() == std::istringstream::traits_type::eof();
    return isWhole ? std::optional<double>(value) : std::nullopt;
}

} // end namespace bbflow
