/** Writes the frame of one commit to standard output: what golden/commit.bin must hold.
 *
 * `golden copy` reads frames from standard input and writes what it has read. */

#include "Frame.h"

#include <cstdint>
#include <iostream>
#include <iterator>
#include <limits>
#include <string>

using bbflow::Value;

namespace
{

Value::Map ArrayBlock()
{
    return {{"name", "tas"},
            {"type", "float"},
            {"kind", "GlobalArray"},
            {"shape", Value::FromDims({180, 360})},
            {"start", Value::FromDims({90, 0})},
            {"count", Value::FromDims({90, 360})},
            {"offset", uint64_t{1} << 33},
            {"bytes", uint64_t{129600}},
            {"min", 203.5},
            {"max", 317.25}};
}

/** A block without a place in the pool, of an array that is joined in its first dimension. */
Value::Map SpilledBlock()
{
    return {{"name", "points"},
            {"type", "int8_t"},
            {"kind", "JoinedArray"},
            {"shape", Value::Array{std::numeric_limits<uint64_t>::max() - 1, uint64_t{3}}},
            {"start", Value::Array{}},
            {"count", Value::FromDims({2, 3})},
            {"offset", uint64_t{64}},
            {"bytes", uint64_t{6}},
            {"min", int64_t{-128}},
            {"max", int64_t{127}},
            {"file", "/pfs/climate.300.7.spill"}};
}

Value::Map SingleValue(const std::string &name, const std::string &type, Value value)
{
    return {{"name", name},
            {"type", type},
            {"kind", "GlobalValue"},
            {"shape", Value::Array{}},
            {"start", Value::Array{}},
            {"count", Value::Array{}},
            {"value", std::move(value)}};
}

Value::Array Numbers()
{
    Value::Array numbers;
    for (const int64_t number :
         {int64_t{0}, int64_t{127}, int64_t{128}, int64_t{-1}, int64_t{-32}, int64_t{-33},
          int64_t{-128}, int64_t{-129}, int64_t{65536}, std::numeric_limits<int64_t>::min()})
    {
        numbers.emplace_back(number);
    }
    numbers.emplace_back(std::numeric_limits<uint64_t>::max());
    return numbers;
}

Value::Map Attribute(const std::string &name, const std::string &type, Value value)
{
    return {{"name", name}, {"type", type}, {"value", std::move(value)}};
}

int Copy()
{
    std::string received{std::istreambuf_iterator<char>(std::cin), {}};
    while (const auto message = bbflow::TakeMessage(received))
    {
        std::cout << bbflow::EncodeFrame(*message);
    }
    return std::cout.flush() && received.empty() ? 0 : 1;
}

} // namespace

int main(const int count, char **words)
{
    if (count == 2 && std::string(words[1]) == "copy")
    {
        return Copy();
    }
    const Value::Map commit = {
        {"op", "commit"},
        {"step", uint64_t{300}},
        {"blocks", Value::Array{ArrayBlock(), SpilledBlock(), SingleValue("time", "double", 0.125),
                                SingleValue("label", "string", std::string(40, 'n') + " Größe"),
                                SingleValue("phase", "double complex", Value::Array{1.0, -2.0})}},
        {"attributes", Value::Array{Attribute("tas/units", "string", "K"),
                                    Attribute("numbers", "int64_t", Numbers()),
                                    Attribute("latin", "string", "gr\xfcn")}},
        {"waited_s", 1.5}};
    std::cout << bbflow::EncodeFrame(commit);
    return std::cout.flush() ? 0 : 1;
}
