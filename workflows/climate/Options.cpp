#include "Options.h"

#include <charconv>
#include <functional>
#include <map>
#include <utility>

namespace climate
{

namespace
{

template <class T>
T Number(const std::string &flag, const std::string &text, const T lowest, const T highest)
{
    T value{};
    const char *end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stopped != end || value < lowest || value > highest)
    {
        throw BadOption(flag + " must be a whole number from " + std::to_string(lowest) + " to " +
                        std::to_string(highest) + ", not '" + text + "'");
    }
    return value;
}

bool OnOrOff(const std::string &flag, const std::string &text)
{
    if (text != "on" && text != "off")
    {
        throw BadOption(flag + " must be 'on' or 'off', not '" + text + "'");
    }
    return text == "on";
}

CalendarKind KnownCalendar(const std::string &flag, const std::string &text)
{
    for (const CalendarKind kind :
         {CalendarKind::Standard, CalendarKind::NoLeap, CalendarKind::Days360})
    {
        if (text == NameOf(kind))
        {
            return kind;
        }
    }
    throw BadOption(flag + " must be standard, noleap or 360_day, not '" + text + "'");
}

using Setter = std::function<void(const std::string &flag, const std::string &text)>;

Setter Into(size_t &target, const size_t lowest, const size_t highest)
{
    return [&target, lowest, highest](const std::string &flag, const std::string &text)
    { target = Number<size_t>(flag, text, lowest, highest); };
}

Setter Into(std::string &target)
{
    return [&target](const std::string &flag, const std::string &text)
    {
        if (text.empty())
        {
            throw BadOption(flag + " must not be empty");
        }
        target = text;
    };
}

std::map<std::string, Setter> SettersOf(Options &options)
{
    const auto seed = [&options](const std::string &flag, const std::string &text)
    { options.Seed = Number<uint64_t>(flag, text, 0, std::numeric_limits<uint64_t>::max()); };
    const auto calendar = [&options](const std::string &flag, const std::string &text)
    { options.Calendar = KnownCalendar(flag, text); };
    const auto physics = [&options](const std::string &flag, const std::string &text)
    { options.Physics = OnOrOff(flag, text); };
    return {
        {"--nlat", Into(options.Latitudes, 4, 20000)},
        {"--nlon", Into(options.Longitudes, 8, 40000)},
        {"--levels", Into(options.Levels, 1, 1000)},
        {"--steps", Into(options.Steps, 1, 1000000000)},
        {"--steps-per-day", Into(options.StepsPerDay, 1, 1440)},
        {"--calendar", calendar},
        {"--seed", seed},
        {"--config", Into(options.Config)},
        {"--output", Into(options.Output)},
        {"--die-at-step", Into(options.DieAtStep, 0, 1000000000)},
        {"--physics", physics},
    };
}

} // namespace

Options Options::Parse(const int argc, char **argv)
{
    Options options;
    const std::map<std::string, Setter> setters = SettersOf(options);
    for (int i = 1; i < argc; ++i)
    {
        const std::string argument = argv[i];
        if (argument == "--help" || argument == "-h")
        {
            options.Help = true;
            continue;
        }
        const size_t equals = argument.find('=');
        const std::string flag = argument.substr(0, equals);
        const auto setter = setters.find(flag);
        if (setter == setters.end())
        {
            throw BadOption("unknown flag '" + flag + "'; see --help");
        }
        if (equals == std::string::npos && ++i == argc)
        {
            throw BadOption(flag + " needs a value");
        }
        setter->second(flag, equals == std::string::npos ? argv[i] : argument.substr(equals + 1));
    }
    return options;
}

std::string Options::Usage()
{
    return R"(usage: mpiexec -n RANKS climate [--flag value ...]

Advection and diffusion of temperature and moisture on the sphere, driven by the
sun and by stochastic weather. Each step is written through ADIOS2; the rows of
latitude are shared out over the ranks.

  --nlat N            rows of latitude, at least two a rank (96)
  --nlon N            columns of longitude (192)
  --levels N          pressure levels of ta (4)
  --steps N           steps to write (120)
  --steps-per-day N   steps in a day (4)
  --calendar NAME     standard, noleap or 360_day (standard)
  --seed N            same seed, same fields, whatever the number of ranks (1)
  --config FILE       ADIOS2's XML configuration (climate.xml)
  --output NAME       stream or file (climate.bp); '{rank}' in it becomes the rank.
                      Each rank opens it on its own: an engine that doesn't bring
                      ranks together, such as BP5, needs '{rank}' or a single rank.
  --help              show this text

testing aids:
  --die-at-step N     every rank kills itself in step N, between Put and EndStep
  --physics off       transport only, on a planet without mountains; prints how far
                      the totals of heat and moisture have drifted
)";
}

} // end namespace climate
