#include "Parameters.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace bbflow
{

namespace
{

/** Ours, and those that ADIOS2 itself puts there for a plugin. */
const std::vector<std::string> Known = {"Stream",     "Contact",         "Rank",
                                        "Writers",    "QueueFullPolicy", "OpenTimeoutSecs",
                                        "PluginName", "PluginLibrary",   "verbose"};

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

std::string Nearest(const std::string &unknown)
{
    return *std::min_element(
        Known.begin(), Known.end(), [&](const std::string &a, const std::string &b)
        { return Distance(Lower(unknown), Lower(a)) < Distance(Lower(unknown), Lower(b)); });
}

double Number(const std::string &name, const std::string &text)
{
    char *end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(value >= 0) || value > Largest)
    {
        throw std::invalid_argument("bbflow: parameter " + name + "=" + text +
                                    " must be a number from 0 to 1e9");
    }
    return value;
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

std::string Policy(const std::string &text)
{
    for (const char *policy : {"Block", "Discard"})
    {
        if (Lower(text) == Lower(policy))
        {
            return policy;
        }
    }
    throw std::invalid_argument("bbflow: parameter QueueFullPolicy=" + text +
                                " must be Block or Discard");
}

void CheckNames(const std::map<std::string, std::string> &given)
{
    for (const auto &[name, value] : given)
    {
        const bool isKnown = std::any_of(Known.begin(), Known.end(), [&](const std::string &known)
                                         { return Lower(known) == Lower(name); });
        if (!isKnown)
        {
            throw std::invalid_argument("bbflow: unknown parameter " + name + "; did you mean " +
                                        Nearest(name) + "?");
        }
    }
}

} // namespace

Parameters ReadParameters(const std::map<std::string, std::string> &given,
                          const std::string &ioName)
{
    CheckNames(given);
    const char *contact = std::getenv("BBFLOW_CONTACT");
    Parameters parameters;
    parameters.Stream = ioName;
    parameters.Contact = contact == nullptr ? "" : contact;
    parameters.Place = RankFromLauncher();
    for (const auto &[given_name, value] : given)
    {
        const std::string name = Lower(given_name);
        if (name == "stream")
        {
            parameters.Stream = value;
        }
        else if (name == "contact")
        {
            parameters.Contact = value;
        }
        else if (name == "rank")
        {
            parameters.Place.Rank = WholeNumber(given_name, value);
        }
        else if (name == "writers")
        {
            parameters.Place.Writers = WholeNumber(given_name, value);
        }
        else if (name == "queuefullpolicy")
        {
            parameters.QueueFullPolicy = Policy(value);
        }
        else if (name == "opentimeoutsecs")
        {
            parameters.OpenTimeoutSecs = Number(given_name, value);
        }
    }
    if (parameters.Place.Rank >= parameters.Place.Writers)
    {
        throw std::invalid_argument("bbflow: Rank " + std::to_string(parameters.Place.Rank) +
                                    " is not below Writers " +
                                    std::to_string(parameters.Place.Writers));
    }
    return parameters;
}

} // end namespace bbflow
