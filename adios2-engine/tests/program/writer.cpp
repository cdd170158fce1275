/** Writes what the tests expect to find on the BB node: `writer MODE CONFIG.xml`. */

#include "values.h"

#include <adios2.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace
{

/** One type's variables of each kind. */
template <class T>
class Kinds
{
public:
    Kinds(adios2::IO &io, const std::string &name)
    : m_Sync(io.DefineVariable<T>(name + "/sync", {4, 6}, {0, 0}, {4, 6})),
      m_Deferred(io.DefineVariable<T>(name + "/deferred", {4, 6}, {0, 0}, {4, 6})),
      m_Local(io.DefineVariable<T>(name + "/local", {}, {}, {5})),
      m_Joined(io.DefineVariable<T>(name + "/joined", {adios2::JoinedDim, 3}, {}, {2, 3})),
      m_Empty(io.DefineVariable<T>(name + "/empty", {4}, {0}, {4})),
      m_Value(io.DefineVariable<T>(name + "/value")),
      m_Here(io.DefineVariable<T>(name + "/here", {adios2::LocalValueDim}))
    {
        io.DefineAttribute<T>(name + "/one", ValueAt<T>(3));
        const std::vector<T> many = Values<T>(3, 4);
        io.DefineAttribute<T>(name + "/many", many.data(), many.size());
    }

    void Put(adios2::Engine &engine)
    {
        std::vector<T> reused = Values<T>(24, 0, true);
        engine.Put(m_Sync, reused.data(), adios2::Mode::Sync);
        reused.assign(24, T{}); // must not be seen: the Put is done
        m_Kept = Values<T>(24, 10);
        m_Deferred.SetSelection({{0, 0}, {1, 6}});
        engine.Put(m_Deferred, m_Kept.data());
        m_Deferred.SetSelection({{1, 0}, {3, 6}});
        engine.Put(m_Deferred, m_Kept.data() + 6);
        m_Kept.assign(24, T{}); // must not be seen: small blocks are copied within the Put
        m_FiveKept = Values<T>(6, 40);
        engine.Put(m_Local, m_FiveKept.data());
        engine.Put(m_Joined, m_FiveKept.data());
        m_Empty.SetSelection({{0}, {0}});
        engine.Put(m_Empty, m_FiveKept.data());
        engine.Put(m_Value, ValueAt<T>(1));
        engine.Put(m_Here, ValueAt<T>(2));
    }

private:
    adios2::Variable<T> m_Sync, m_Deferred, m_Local, m_Joined, m_Empty, m_Value, m_Here;
    std::vector<T> m_Kept, m_FiveKept;
};

/** The kinds of several types. */
template <class... T>
class AllKinds
{
public:
    explicit AllKinds(adios2::IO &io) : m_Kinds(Kinds<T>(io, adios2::GetType<T>())...) {}

    void Put(adios2::Engine &engine)
    {
        std::apply([&engine](auto &...kinds) { (kinds.Put(engine), ...); }, m_Kinds);
    }

private:
    std::tuple<Kinds<T>...> m_Kinds;
};

adios2::Engine Open(adios2::IO &io) { return io.Open("out", adios2::Mode::Write); }

void WriteTypes(adios2::IO &io)
{
    AllKinds<char, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, float,
             double, long double, std::complex<float>, std::complex<double>>
        kinds(io);
    auto text = io.DefineVariable<std::string>("string/value");
    auto here = io.DefineVariable<std::string>("string/here", {adios2::LocalValueDim});
    auto engine = Open(io);
    engine.BeginStep();
    kinds.Put(engine);
    engine.Put(text, std::string("Größe in µm"));
    engine.Put(here, std::string(300, 'x'));
    engine.EndStep();
    engine.BeginStep();
    engine.Put(text, std::string());
    engine.EndStep();
    engine.Close();
}

void WriteChangingAttributes(adios2::IO &io)
{
    auto tick = io.DefineVariable<int>("tick");
    auto engine = Open(io);
    const std::vector<std::vector<int>> ladders = {{1, 2, 3}, {1, 2, 4}, {1, 2, 4, 8}};
    for (int step = 0; step < 3; ++step)
    {
        engine.BeginStep();
        const auto &ladder = ladders[step];
        io.DefineAttribute<std::string>("mood", step == 0 ? "calm" : "wild", "", "/", true);
        io.DefineAttribute<double>("fine", 1.0 + step * 1e-12, "", "/", true);
        io.DefineAttribute<int>("ladder", ladder.data(), ladder.size(), "", "/", true);
        io.DefineAttribute<int>("still", 7);
        io.DefineAttribute<std::string>("units", "s", "tick");
        if (step == 2)
        {
            io.DefineAttribute<int>("late", 1);
        }
        engine.Put(tick, step);
        engine.EndStep();
    }
    engine.Close();
}

/** Fills spans in several ways: two of one variable at once, of other lengths in the next step,
 * with a first value, by index, by iterators and by the bare address. ADIOS2's own know the first
 * length only. */
template <class... Types>
void PutSpansOf(adios2::IO &io)
{
    auto field = io.DefineVariable<double>("field", {6}, {0}, {6});
    auto engine = Open(io);
    for (int step = 0; step < 3; ++step)
    {
        engine.BeginStep();
        field.SetSelection({{0}, {2}});
        auto first = engine.Put(field); // filled after the next one is had
        field.SetSelection({{2}, {size_t(step + 2)}});
        auto second = engine.Put(field, true, 0.5);
        std::fill(first.begin(), first.end(), step);
        second[0] = 10.0 + step;
        second.at(1) = 20.0 + step;
        const std::vector<double> last(2, 30.0);
        field.SetSelection({{size_t(step + 4)}, {size_t(2 - step)}});
        if (step < 2)
        {
            engine.Put(field, last.data());
        }
        const auto put = [&](auto value)
        {
            using T = decltype(value);
            const std::string name = std::string("as/") + adios2::GetType<T>();
            auto variable =
                step == 0 ? io.DefineVariable<T>(name, {}, {}, {3}) : io.InquireVariable<T>(name);
            auto span = engine.Put(variable);
            for (size_t i = 0; i < 3; ++i)
            {
                span.data()[i] = value + T(i);
            }
        };
        (put(Types(step + 1)), ...);
        engine.PerformPuts();
        engine.EndStep();
    }
    engine.Close();
}

void PutSpans(adios2::IO &io)
{
    PutSpansOf<char, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
               float, double, long double, std::complex<float>, std::complex<double>>(io);
}

/** Puts what lies inside of a frame of ghost cells. */
void PutFromLargerMemory(adios2::IO &io)
{
    auto field = io.DefineVariable<double>("field", {2, 3}, {0, 0}, {2, 3});
    field.SetMemorySelection({{1, 1}, {4, 5}});
    std::vector<double> memory(20);
    std::iota(memory.begin(), memory.end(), 0.0);
    auto engine = Open(io);
    engine.BeginStep();
    engine.Put(field, memory.data());
    engine.EndStep();
    engine.Close();
}

void PutWithoutBeginStep(adios2::IO &io)
{
    auto field = io.DefineVariable<double>("field", {4}, {0}, {4});
    auto engine = Open(io);
    const std::vector<double> values = {1, 2, 3, 4};
    engine.Put(field, values.data());
    engine.Close();
}

void PutWithoutSelection(adios2::IO &io)
{
    auto field = io.DefineVariable<double>("field", {4});
    auto engine = Open(io);
    engine.BeginStep();
    const std::vector<double> values = {1, 2, 3, 4};
    engine.Put(field, values.data());
    engine.EndStep();
    engine.Close();
}

void LeaveOpen(adios2::IO &io)
{
    auto field = io.DefineVariable<double>("field", {4}, {0}, {4});
    auto engine = Open(io);
    const std::vector<double> values = {1, 2, 3, 4};
    for (int step = 0; step < 2; ++step)
    {
        engine.BeginStep();
        engine.Put(field, values.data(), adios2::Mode::Sync);
        if (step == 0)
        {
            engine.EndStep();
        }
    }
}

/** Fills spans in so many steps that ranks fold them; the last of each step counts. */
void PutManySpans(adios2::IO &io)
{
    io.DefineAttribute<std::string>("time/units", "hours since 2001-01-30");
    auto time = io.DefineVariable<double>("time");
    auto field = io.DefineVariable<float>("t", {600}, {0}, {600});
    auto engine = Open(io);
    for (int step = 0; step < 240; ++step)
    {
        engine.BeginStep();
        engine.Put(time, double(step));
        if (step % 3 == 0)
        {
            auto early = engine.Put(field, true, -1.0f);
            early[1] = -2.0f;
        }
        if (step % 6 == 0)
        {
            engine.PerformPuts();
        }
        auto span = engine.Put(field, true, 0.5f);
        for (size_t i = 0; i < span.size(); ++i)
        {
            span[i] = float((i + 7 * step) % 31);
        }
        engine.EndStep();
    }
    engine.Close();
}

/** Fills spans of one variable in several files, one after the other. */
void PutSpansInFiles(adios2::IO &io)
{
    auto field = io.DefineVariable<double>("field", {4}, {0}, {4});
    std::vector<std::vector<char>> taken;
    for (int file = 0; file < 3; ++file)
    {
        auto engine = Open(io);
        for (int step = 0; step < 2; ++step)
        {
            engine.BeginStep();
            auto span = engine.Put(field);
            std::fill(span.begin(), span.end(), 2 * file + step);
            engine.EndStep();
        }
        engine.Close();
        for (size_t bytes = 16; bytes <= 4096; bytes += 16)
        {
            taken.emplace_back(bytes); // else the next engine lies where this one did
        }
    }
}

/** Puts from its own memory where it gets no span. */
void PutWhereThereIsNoSpan(adios2::IO &io)
{
    auto field = io.DefineVariable<double>("field", {4}, {0}, {4});
    const std::vector<double> own(4, 1.0);
    auto engine = Open(io);
    for (int step = 0; step < 2; ++step)
    {
        engine.BeginStep();
        try
        {
            auto span = engine.Put(field);
            std::copy(own.begin(), own.end(), span.begin());
        }
        catch (const std::exception &)
        {
            engine.Put(field, own.data());
        }
        engine.EndStep();
    }
    engine.Close();
}

void BeginTwice(adios2::IO &io)
{
    auto engine = Open(io);
    engine.BeginStep();
    engine.BeginStep();
}

void EndWithoutBegin(adios2::IO &io) { Open(io).EndStep(); }

void UpdateStep(adios2::IO &io) { Open(io).BeginStep(adios2::StepMode::Update); }

void OpenToAppend(adios2::IO &io) { io.Open("out", adios2::Mode::Append).Close(); }

const std::map<std::string, std::function<void(adios2::IO &)>> Modes = {
    {"types", WriteTypes},
    {"attributes", WriteChangingAttributes},
    {"spans", PutSpans},
    {"many-spans", PutManySpans},
    {"spans-in-files", PutSpansInFiles},
    {"span-or-put", PutWhereThereIsNoSpan},
    {"ghosts", PutFromLargerMemory},
    {"stepless", PutWithoutBeginStep},
    {"unselected", PutWithoutSelection},
    {"unclosed", LeaveOpen},
    {"begin-twice", BeginTwice},
    {"end-first", EndWithoutBegin},
    {"update", UpdateStep},
    {"append", OpenToAppend}};

} // namespace

int main(const int count, char **words)
{
    if (count != 3 || Modes.count(words[1]) == 0)
    {
        std::cerr << "usage: writer MODE CONFIG.xml\n";
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
    return 0;
}
