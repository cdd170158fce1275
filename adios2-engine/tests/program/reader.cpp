/** Reads what `writer types` wrote, or a field of 4 by 6 in two blocks, and says what is not as it
 * should be: `reader MODE CONFIG.xml`. */

#include "values.h"

#include <adios2.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace
{

/** Says that something is wrong. */
void Expect(const bool condition, const std::string &what)
{
    if (!condition)
    {
        std::cout << "wrong: " << what << '\n';
    }
}

template <class T>
std::vector<T> Part(const std::vector<T> &whole, const size_t columns,
                    const adios2::Box<adios2::Dims> &box)
{
    std::vector<T> part;
    for (size_t row = 0; row < box.second[0]; ++row)
    {
        const auto begin = whole.begin() + (box.first[0] + row) * columns + box.first[1];
        part.insert(part.end(), begin, begin + box.second[1]);
    }
    return part;
}

/** Checks one type's variables of each kind. */
template <class T>
class KindsRead
{
public:
    KindsRead(adios2::IO &io, adios2::Engine &engine)
    : m_IO(io), m_Engine(engine), m_Type(adios2::GetType<T>())
    {
        const std::vector<T> sync = Values<T>(24, 0, true);
        ExpectArray("/sync", sync);
        ExpectPart("/sync", sync, {{1, 2}, {3, 3}});
        ExpectArray("/deferred", Values<T>(24, 10));
        ExpectPart("/deferred", Values<T>(24, 10), {{0, 5}, {4, 1}});
        ExpectArray("/local", Values<T>(5, 40));
        ExpectArray("/joined", Values<T>(6, 40));
        ExpectArray("/here", {ValueAt<T>(2)});
        Expect(!m_IO.template InquireVariable<T>(m_Type + "/empty"), m_Type + "/empty");
        ExpectSingle();
        ExpectAttributes();
        ExpectInfo(sync);
    }

private:
    adios2::IO &m_IO;
    adios2::Engine &m_Engine;
    const std::string m_Type;

    adios2::Variable<T> Find(const std::string &kind)
    {
        return m_IO.InquireVariable<T>(m_Type + kind);
    }

    void ExpectArray(const std::string &kind, const std::vector<T> &expected)
    {
        std::vector<T> values, later;
        adios2::Variable<T> variable = Find(kind);
        m_Engine.Get(variable, values, adios2::Mode::Sync);
        Expect(values == expected, m_Type + kind);
        m_Engine.Get(variable, later, adios2::Mode::Deferred);
        m_Engine.PerformGets();
        Expect(later == expected, m_Type + kind + ", deferred");
    }

    void ExpectPart(const std::string &kind, const std::vector<T> &whole,
                    const adios2::Box<adios2::Dims> &box)
    {
        adios2::Variable<T> variable = Find(kind);
        variable.SetSelection(box);
        std::vector<T> values;
        m_Engine.Get(variable, values, adios2::Mode::Sync);
        Expect(values == Part(whole, 6, box), m_Type + kind + ", a part");
    }

    void ExpectSingle()
    {
        T value{};
        m_Engine.Get(Find("/value"), value);
        Expect(value == ValueAt<T>(1), m_Type + "/value");
        const auto blocks = m_Engine.BlocksInfo(Find("/value"), m_Engine.CurrentStep());
        Expect(blocks.size() == 1 && blocks[0].IsValue && blocks[0].Value == ValueAt<T>(1),
               m_Type + "/value, its block");
    }

    void ExpectAttributes()
    {
        const auto one = m_IO.InquireAttribute<T>(m_Type + "/one");
        const auto many = m_IO.InquireAttribute<T>(m_Type + "/many");
        Expect(one && one.IsValue() && one.Data() == std::vector<T>{ValueAt<T>(3)},
               m_Type + "/one");
        Expect(many && !many.IsValue() && many.Data() == Values<T>(3, 4), m_Type + "/many");
    }

    void ExpectInfo(const std::vector<T> &sync)
    {
        const auto blocks = m_Engine.BlocksInfo(Find("/deferred"), m_Engine.CurrentStep());
        Expect(blocks.size() == 2 && blocks[1].Start == adios2::Dims{1, 0} &&
                   blocks[1].Count == adios2::Dims{3, 6} && blocks[1].BlockID == 1,
               m_Type + "/deferred, its blocks");
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, long double>)
        {
            const auto block = m_Engine.BlocksInfo(Find("/sync"), m_Engine.CurrentStep()).at(0);
            Expect(block.Min == *std::min_element(sync.begin(), sync.end()) &&
                       block.Max == *std::max_element(sync.begin(), sync.end()),
                   m_Type + "/sync, its range");
        }
    }
};

void ReadTypes(adios2::IO &io)
{
    adios2::Engine engine = io.Open("in", adios2::Mode::Read);
    engine.BeginStep();
#define read(T) KindsRead<T>(io, engine);
    ADIOS2_FOREACH_PRIMITIVE_STDTYPE_1ARG(read)
#undef read
    std::string text, here;
    engine.Get(io.InquireVariable<std::string>("string/value"), text);
    engine.Get(io.InquireVariable<std::string>("string/here"), here);
    Expect(text == "Größe in µm", "string/value");
    Expect(here == std::string(300, 'x'), "string/here");
    engine.EndStep();
    engine.BeginStep();
    engine.Get("string/value", text);
    Expect(text.empty() && io.AvailableVariables().size() == 1, "step 1");
    engine.EndStep();
    Expect(engine.BeginStep() == adios2::StepStatus::EndOfStream, "the end");
    engine.Close();
    Expect(io.AvailableVariables().empty(), "what Close leaves behind");
}

/** Ways to select that Python doesn't have. */
void Select(adios2::IO &io)
{
    adios2::Engine engine = io.Open("in", adios2::Mode::Read);
    engine.BeginStep();
    auto field = io.InquireVariable<double>("field");
    std::vector<double> whole, values;
    engine.Get(field, whole, adios2::Mode::Sync);
    engine.Get(field, values, adios2::Selection::BoundingBox({1, 1}, {2, 3}), adios2::Mode::Sync);
    Expect(values == Part(whole, 6, {{1, 1}, {2, 3}}), "a box given with the Get");
    std::vector<double> block(24, -1.0);
    engine.Get(field, block.data(), adios2::Selection::Block(1), adios2::Mode::Sync);
    Expect(std::equal(block.begin(), block.begin() + 18, whole.begin() + 6) && block[18] == -1.0,
           "a block given with the Get");
    field.SetBlockSelection(1);
    field.SetSelection({{0, 0}, {1, 6}});
    engine.Get(field, values, adios2::Mode::Sync);
    Expect(values == Part(whole, 6, {{0, 0}, {1, 6}}), "a box selected after a block");
    field.SetSelection({{1, 2}, {2, 3}});
    field.SetMemorySelection({{1, 1}, {4, 5}});
    std::vector<double> memory(20, -1.0), expected(20, -1.0);
    for (size_t row = 0; row < 2; ++row)
    {
        const auto begin = whole.begin() + (1 + row) * 6 + 2;
        std::copy(begin, begin + 3, expected.begin() + (1 + row) * 5 + 1);
    }
    engine.Get(field, memory.data(), adios2::Mode::Sync);
    Expect(memory == expected, "a memory selection");
    engine.EndStep();
    engine.Close();
}

const std::map<std::string, void (*)(adios2::IO &)> Modes = {{"types", ReadTypes},
                                                             {"selections", Select}};

} // end empty namespace

int main(const int count, char **words)
{
    if (count != 3 || Modes.count(words[1]) == 0)
    {
        std::cerr << "usage: reader MODE CONFIG.xml\n";
        return 2;
    }
    try
    {
        adios2::ADIOS adios(words[2]);
        adios2::IO io = adios.DeclareIO("model");
        Modes.at(words[1])(io);
    }
    catch (const std::exception &error)
    {
        std::cerr << error.what() << '\n';
        return 1;
    }
    std::cout << "done\n";
    return 0;
}
