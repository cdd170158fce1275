/** Writes the frame of one commit to standard output: what golden/commit.bin must hold.
 *
 * `golden copy` reads frames from standard input and writes what it has read. */

#include "Frame.h"

#include <cstdint>
#include <iostream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

using bbflow::Value;

namespace
{

Value::Array Form(const std::string &name, const std::string &type, const std::string &kind)
{
    return {name, type, kind};
}

Value::Array Placed(Value::Array form, const Value &shape, const Value &start, const Value &count,
                    const uint64_t place, const uint64_t bytes, const bool isSpilled)
{
    for (const Value &item : {shape, start, count, Value(uint64_t{7}), Value(uint64_t{0}),
                              Value(place), Value(bytes), Value(isSpilled)})
    {
        form.push_back(item);
    }
    return form;
}

/** An array in the pool, one that is joined in its first dimension and spilled, three values. */
Value::Array Forms()
{
    const Value none = Value::Array{};
    const Value joined = Value::Array{std::numeric_limits<uint64_t>::max() - 1, uint64_t{3}};
    return {Placed(Form("tas", "float", "GlobalArray"), Value::FromDims({180, 360}),
                   Value::FromDims({90, 0}), Value::FromDims({90, 360}), 64, 129600, false),
            Placed(Form("points", "int8_t", "JoinedArray"), joined, none, Value::FromDims({2, 3}),
                   64, 6, true),
            Placed(Form("time", "double", "GlobalValue"), none, none, none, 0, 0, false),
            Placed(Form("label", "string", "GlobalValue"), none, none, none, 0, 0, false),
            Placed(Form("phase", "double complex", "GlobalValue"), none, none, none, 0, 0, false)};
}

template <class T>
std::string Bytes(const std::vector<T> &values)
{
    return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

Value::Binary AllExtremes()
{
    std::string none;
    for (int i = 0; i < 3; ++i)
    {
        none += Bytes<double>({1.0, 0.0});
    }
    return {Bytes<double>({203.5, 317.25}) + Bytes<int64_t>({-128, 127}) + none};
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
        {"layout", uint64_t{2}},
        {"forms", Forms()},
        {"sources", Value::Binary{Bytes<int64_t>({int64_t{1} << 33})}},
        {"files", Value::Array{"/pfs/climate.300.7.spill"}},
        {"values", Value::Array{0.125, std::string(40, 'n') + " Größe", Value::Array{1.0, -2.0}}},
        {"extremes", AllExtremes()},
        {"attributes", Value::Array{Attribute("tas/units", "string", "K"),
                                    Attribute("numbers", "int64_t", Numbers()),
                                    Attribute("latin", "string", "gr\xfcn")}},
        {"open_s", 0.25},
        {"waited_s", 1.5}};
    std::cout << bbflow::EncodeFrame(commit);
    return std::cout.flush() ? 0 : 1;
}
