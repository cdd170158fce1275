#include "Parameters.h"

#include "Decimal.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace bbflow
{

namespace
{

/** Seconds above this don't fit the clock. */
constexpr double Largest = 1e9;

std::string Lower(std::string text)
{
    std::transform(text.begin(), text.end(), text.begin(),
                   [](const unsigned char c) { return std::tolower(c); });
    return text;
}

/** Levenshtein's distance: how many letters must change. */
size_t Distance(const std::string &a, const std::string &b)
{
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i)
    {
        size_t diagonal = row[0]++;
        for (size_t j = 1; j <= b.size(); ++j)
        {
            const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
        }
    }
    return row.back();
}

double Number(const std::string &name, const std::string &text)
{
    const std::optional<double> value = ReadDecimal(text);
    if (!value || *value < 0 || *value > Largest)
    {
        throw std::invalid_argument("bbflow: parameter " + name + "=" + text +
                                    " must be a number from 0 to 1e9");
    }
    return *value;
}

size_t WholeNumber(const std::string &name, const std::string &text)
{
    const double value = Number(name, text);
    if (value != std::floor(value))
    {
        throw std::invalid_argument("bbflow: parameter " + name + "=" + text +
                                    " must be a whole number");
    }
    return static_cast<size_t>(value);
}

/** What a program's pointer was before it became a text. */
void *Handle(const std::string &name, const std::string &text)
{
    char *end = nullptr;
    errno = 0;
    const unsigned long long value = std::strtoull(text.c_str(), &end, 0);
    if (text.empty() || text.front() < '0' || text.front() > '9' || *end != '\0' || errno != 0)
    {
        throw std::invalid_argument("bbflow: parameter " + name + "=" + text +
                                    " must be a stream's handle as a number");
    }
    return reinterpret_cast<void *>(static_cast<uintptr_t>(value));
}

/** Returns the word as it is written here, whatever its case was. */
std::string Choice(const std::string &name, const std::string &text,
                   const std::vector<std::string> &words)
{
    std::string list;
    for (const std::string &word : words)
    {
        if (Lower(text) == Lower(word))
        {
            return word;
        }
        list += (list.empty() ? "" : word == words.back() ? " or " : ", ") + word;
    }
    throw std::invalid_argument("bbflow: parameter " + name + "=" + text + " must be " + list);
}

Transport TransportOf(const std::string &name, const std::string &text)
{
    const std::string word = Choice(name, text, {"auto", "shm", "tcp", "fabric"});
    return word == "shm"      ? Transport::SharedMemory
           : word == "tcp"    ? Transport::Tcp
           : word == "fabric" ? Transport::Fabric
                              : Transport::Auto;
}

/** Negative is for ever, as other engines take it, whose parameter has the same name. */
double Patience(const std::string &name, const std::string &text)
{
    const std::optional<double> value = ReadDecimal(text);
    return value && *value < 0 ? Largest : Number(name, text);
}

std::optional<bool> Order(const std::string &name, const std::string &text)
{
    const std::string word = Choice(name, text, {"Auto", "RowMajor", "ColumnMajor"});
    return word == "Auto" ? std::nullopt : std::optional<bool>(word == "ColumnMajor");
}

bool YesOrNo(const std::string &name, const std::string &text)
{
    const std::string word =
        Choice(name, text, {"yes", "true", "on", "1", "no", "false", "off", "0"});
    return word == "yes" || word == "true" || word == "on" || word == "1";
}

size_t AtLeastOne(const std::string &name, const std::string &text)
{
    const size_t value = WholeNumber(name, text);
    if (value == 0)
    {
        throw std::invalid_argument("bbflow: parameter " + name + "=0 must be at least 1");
    }
    return value;
}

/** Sees that what stands in braces is known: a slip would give all ranks one stream. */
std::string StreamName(const std::string &name, const std::string &text)
{
    for (size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at + 1))
    {
        const size_t end = text.find('}', at);
        const std::string word = text.substr(at, end == std::string::npos ? end : end - at + 1);
        if (word != "{rank}" && word != "{group}" && word != "{open}")
        {
            throw std::invalid_argument("bbflow: parameter " + name + "=" + text + " has " + word +
                                        ", but only {rank}, {group} and {open} are known");
        }
    }
    return text;
}

using Setter = void (*)(Parameters &, const std::string &name, const std::string &text);

/** Ours, and those that ADIOS2 itself puts there for a plugin. */
const std::vector<std::pair<std::string, Setter>> Known = {
#define set(NAME, MEMBER, VALUE)                                                                   \
    {NAME, [](Parameters &to, [[maybe_unused]] const std::string &name, const std::string &text)   \
     { to.MEMBER = VALUE; }},
    // clang-format off
    set("Stream", Stream, StreamName(name, text))
    set("Contact", Contact, text)
    set("Rank", Place.Rank, WholeNumber(name, text))
    set("Writers", Place.Writers, WholeNumber(name, text))
    set("Groups", Groups, AtLeastOne(name, text))
    set("RanksPerNode", RanksPerNode, AtLeastOne(name, text))
    set("Transport", Transport, TransportOf(name, text))
    set("FabricProvider", FabricProvider, text)
    set("FabricChecks", FabricChecks, YesOrNo(name, text))
    set("FabricGpu", FabricGpu, YesOrNo(name, text))
    set("GpuStream", GpuStream, Handle(name, text))
    set("QueueFullPolicy", QueueFullPolicy, Choice(name, text, {"Block", "Discard", "Spill"}))
    set("SpillDirectory", SpillDirectory, std::filesystem::absolute(text).string())
    set("OpenTimeoutSecs", OpenTimeoutSecs, Patience(name, text))
    set("NodeLossTimeoutSecs", NodeLossTimeoutSecs, Number(name, text))
    set("Pin", Pin, YesOrNo(name, text))
    set("KeepOpen", KeepOpen, YesOrNo(name, text))
    set("ArrayOrder", IsColumnMajor, Order(name, text))
// clang-format on
#undef set
                                            {"PluginName", nullptr},
    {"PluginLibrary", nullptr},
    {"verbose", nullptr}};

std::string Nearest(const std::string &unknown)
{
    const auto distance = [&](const auto &known)
    { return Distance(Lower(unknown), Lower(known.first)); };
    return std::min_element(Known.begin(), Known.end(),
                            [&](const auto &a, const auto &b) { return distance(a) < distance(b); })
        ->first;
}

/** Which of our names is meant, with a slip of the pen or cut short; empty if it is none of ours.
 */
std::string Meant(const std::string &name)
{
    constexpr size_t fewest = 4; // letters that tell a name
    const std::string nearest = Nearest(name);
    if (3 * Distance(Lower(name), Lower(nearest)) <= nearest.size())
    {
        return nearest;
    }
    const auto begins = [&](const auto &known)
    { return Lower(known.first).compare(0, name.size(), Lower(name)) == 0; };
    const auto longer = std::find_if(Known.begin(), Known.end(), begins);
    return name.size() >= fewest && longer != Known.end() ? longer->first : "";
}

/** Takes a parameter in; gives false if it is one of another engine. */
bool Set(Parameters &parameters, const std::string &name, const std::string &text)
{
    for (const auto &[known, setter] : Known)
    {
        if (Lower(known) == Lower(name))
        {
            setter == nullptr ? void() : setter(parameters, name, text);
            return true;
        }
    }
    if (const std::string meant = Meant(name); !meant.empty())
    {
        throw std::invalid_argument("bbflow: unknown parameter " + name + "; did you mean " +
                                    meant + "?");
    }
    return false;
}

void CheckTogether(const Parameters &parameters)
{
    if (parameters.Place.Rank >= parameters.Place.Writers)
    {
        throw std::invalid_argument("bbflow: Rank " + std::to_string(parameters.Place.Rank) +
                                    " is not below Writers " +
                                    std::to_string(parameters.Place.Writers));
    }
    if (parameters.QueueFullPolicy == "Spill" && parameters.SpillDirectory.empty())
    {
        throw std::invalid_argument("bbflow: QueueFullPolicy=Spill needs a SpillDirectory: give a "
                                    "directory on the parallel file system");
    }
    if (parameters.KeepOpen && parameters.Stream.find("{open}") != std::string::npos)
    {
        throw std::invalid_argument("bbflow: KeepOpen makes one stream of all Opens, but {open} in "
                                    "Stream gives each one of its own: take one of them");
    }
}

bool IsSame(const RankOf &one, const RankOf &other)
{
    return one.Rank == other.Rank && one.Writers == other.Writers;
}

/** Takes in who runs on which host, from whoever counts the ranks that write. */
void SetHosts(Parameters &parameters, const Opened &opened)
{
    if (opened.Place && IsSame(parameters.Place, *opened.Place))
    {
        parameters.Hosts = opened.Hosts;
    }
    if (IsSame(parameters.Place, RankFromLauncher()))
    {
        parameters.OnHost = LocalRankFromLauncher();
    }
}

} // end empty namespace

Parameters ReadParameters(const std::map<std::string, std::string> &given,
                          const std::string &ioName, const Opened &opened)
{
    const char *contact = std::getenv("BBFLOW_CONTACT");
    Parameters parameters;
    parameters.Stream = ioName;
    parameters.Contact = contact == nullptr ? "" : contact;
    parameters.Place = opened.Place ? *opened.Place : RankFromLauncher();
    for (const auto &[name, text] : given)
    {
        if (!Set(parameters, name, text))
        {
            parameters.Ignored.push_back(name);
        }
    }
    if (const char *suffix = std::getenv("BBFLOW_STREAM_SUFFIX"))
    {
        parameters.Stream += suffix; // of one member of an ensemble: all run the same program
    }
    CheckTogether(parameters);
    SetHosts(parameters, opened);
    return parameters;
}

} // end namespace bbflow
