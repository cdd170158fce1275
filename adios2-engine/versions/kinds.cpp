/** Writes each kind of variable that ADIOS2 has, or says what it reads of them:
 * `kinds write|read CONFIG FILE`, where CONFIG is an XML or `-` for BP5 set in code. */

#include <adios2.h>

#include <complex>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

constexpr size_t Steps = 4, Rows = 4, Columns = 6, Ghost = 1;

template <class T>
std::vector<T> Counted(const size_t count, const int from)
{
    std::vector<T> values(count);
    for (size_t i = 0; i < count; ++i)
    {
        values[i] = static_cast<T>(from + static_cast<int>(i));
    }
    return values;
}

void Write(adios2::IO &io, const std::string &file)
{
    io.SetParameter("StatsLevel", "0"); // of BP5
    io.DefineAttribute<std::string>("title", "kinds");
    const std::vector<double> levels{1000, 850.5, 500};
    io.DefineAttribute<double>("levels", levels.data(), levels.size());
    auto time = io.DefineVariable<double>("time");
    auto label = io.DefineVariable<std::string>("label");
    auto field = io.DefineVariable<double>("field", {Rows, Columns}, {0, 0}, {Rows / 2, Columns});
    auto inner = io.DefineVariable<int32_t>("inner", {Columns}, {0}, {Columns});
    auto waves = io.DefineVariable<std::complex<float>>("waves", {3}, {0}, {3});
    auto growing = io.DefineVariable<uint8_t>("growing", {1, 2}, {0, 0}, {1, 2});
    auto local = io.DefineVariable<int64_t>("local", {}, {}, {3});
    adios2::Engine engine = io.Open(file, adios2::Mode::Write);
    for (size_t step = 0; step < Steps; ++step)
    {
        const int from = static_cast<int>(100 * step);
        const std::vector<double> all = Counted<double>(Rows * Columns, from);
        engine.BeginStep();
        io.DefineAttribute<int32_t>("attribute" + std::to_string(step), from);
        engine.Put(time, 0.5 * static_cast<double>(step));
        engine.Put(label, "step " + std::to_string(step));
        for (size_t half = 0; half < 2; ++half)
        {
            field.SetSelection({{half * Rows / 2, 0}, {Rows / 2, Columns}});
            engine.Put(field, all.data() + half * Rows / 2 * Columns);
        }
        const std::vector<int32_t> framed = Counted<int32_t>(Columns + 2 * Ghost, from);
        inner.SetMemorySelection({{Ghost}, {Columns + 2 * Ghost}});
        engine.Put(inner, framed.data(), adios2::Mode::Sync);
        const std::vector<std::complex<float>> wave{
            {1.0F, -1.0F}, {0.0F, 2.5F}, {static_cast<float>(from), 0.0F}};
        engine.Put(waves, wave.data(), adios2::Mode::Sync);
        growing.SetShape({step + 1, 2});
        growing.SetSelection({{0, 0}, {step + 1, 2}});
        engine.Put(growing, Counted<uint8_t>(2 * (step + 1), static_cast<int>(step)).data(),
                   adios2::Mode::Sync);
        engine.Put(local, Counted<int64_t>(3, from).data(), adios2::Mode::Sync);
        engine.EndStep();
    }
    engine.Close();
}

template <class T>
void Say(const std::vector<T> &values)
{
    for (const T &value : values)
    {
        std::cout << ' ' << +value;
    }
    std::cout << '\n';
}

template <>
void Say(const std::vector<std::complex<float>> &values)
{
    for (const auto &value : values)
    {
        std::cout << ' ' << value;
    }
    std::cout << '\n';
}

template <class T>
void SayArray(adios2::IO &io, adios2::Engine &engine, const std::string &name)
{
    auto variable = io.InquireVariable<T>(name);
    const adios2::Dims shape = variable.Shape();
    std::cout << name << " (";
    for (const size_t length : shape)
    {
        std::cout << length << ',';
    }
    std::cout << ')';
    variable.SetSelection({adios2::Dims(shape.size(), 0), shape});
    std::vector<T> values;
    engine.Get(variable, values, adios2::Mode::Sync);
    Say(values);
}

template <class T>
void SaySingle(adios2::IO &io, adios2::Engine &engine, const std::string &name)
{
    T value{};
    engine.Get(io.InquireVariable<T>(name), value, adios2::Mode::Sync);
    std::cout << name << ' ' << value << '\n';
}

/** A part of a field in two blocks, into memory with a frame. */
void SayPart(adios2::IO &io, adios2::Engine &engine)
{
    auto field = io.InquireVariable<double>("field");
    field.SetSelection({{1, 2}, {2, 3}});
    field.SetMemorySelection({{1, 1}, {4, 5}});
    std::vector<double> framed(4 * 5, -1.0);
    engine.Get(field, framed.data(), adios2::Mode::Sync);
    std::cout << "part";
    Say(framed);
}

void Read(adios2::IO &io, const std::string &file)
{
    adios2::Engine engine = io.Open(file, adios2::Mode::Read);
    for (size_t step = 0; engine.BeginStep() == adios2::StepStatus::OK; ++step)
    {
        std::cout << "step " << step << '\n'; // plugins before 2.12 can't be asked for it
        SaySingle<double>(io, engine, "time");
        SaySingle<std::string>(io, engine, "label");
        SayArray<double>(io, engine, "field");
        SayArray<int32_t>(io, engine, "inner");
        SayArray<std::complex<float>>(io, engine, "waves");
        SayArray<uint8_t>(io, engine, "growing");
        auto local = io.InquireVariable<int64_t>("local");
        local.SetBlockSelection(0);
        std::vector<int64_t> values(3);
        engine.Get(local, values.data(), adios2::Mode::Sync);
        std::cout << "local";
        Say(values);
        SayPart(io, engine);
        for (const auto &[name, facts] : io.AvailableAttributes())
        {
            std::cout << name << ' ' << facts.at("Type") << ' ' << facts.at("Value") << '\n';
        }
        engine.EndStep();
    }
    engine.Close();
}

} // end empty namespace

int main(const int count, char **words)
{
    try
    {
        if (count != 4)
        {
            throw std::invalid_argument("usage: kinds write|read CONFIG FILE");
        }
        const std::string config = words[2];
        adios2::ADIOS adios(config == "-" ? "" : config);
        adios2::IO io = adios.DeclareIO("model");
        if (config == "-")
        {
            io.SetEngine("BP5");
        }
        (words[1] == std::string("write") ? Write : Read)(io, words[3]);
    }
    catch (const std::exception &error)
    {
        std::cerr << error.what() << '\n';
        return 1;
    }
    return 0;
}
