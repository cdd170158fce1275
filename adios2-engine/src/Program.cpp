#include "Program.h"

#include "ArrayOrder.h"

#include <filesystem>
#include <iostream>
#include <mutex>
#include <set>
#include <stdexcept>

namespace bbflow
{

namespace
{

/** A program may open the same again thousands of times: it is told once. */
void TellOnce(const Parameters &parameters, const std::string &what)
{
    static std::mutex lock;
    static std::set<std::string> told;
    const std::string line = "bbflow: stream '" + parameters.Stream + "': " + what + "\n";
    const std::lock_guard<std::mutex> guard(lock);
    if (parameters.Place.Rank == 0 && told.insert(line).second)
    {
        std::cerr << line << std::flush;
    }
}

/** ADIOS2 takes any PluginName where PluginLibrary is right: a wrong one is likely a mistake. */
void WarnOfName(const std::string &name, const Parameters &parameters)
{
    if (name != "bbflow")
    {
        TellOnce(parameters, "the engine's PluginName is '" + name +
                                 "', which counts for nothing: it should be 'bbflow'");
    }
}

void TellOfIgnored(const Parameters &parameters)
{
    std::string names;
    for (const std::string &name : parameters.Ignored)
    {
        names += (names.empty() ? "" : ", ") + name;
    }
    if (!names.empty())
    {
        TellOnce(parameters, "parameters that bbflow doesn't have count for nothing: " + names);
    }
}

/** Where the file would be that an Open names: ranks of one stream have one. Empty if unknown, or
 * the ranks' communicator says that they are one. */
std::string PathOf(const Opened &opened)
{
    const bool isKnown = !opened.File.empty() && (!opened.Place || opened.Place->Writers == 1);
    return isKnown ? std::filesystem::absolute(opened.File).lexically_normal().string() : "";
}

} // end empty namespace

Program LookAt(adios2::IO io, const std::string &pluginName, const adios2::Mode mode,
               const Opened &opened, const std::optional<bool> &order)
{
    if (!Writes(mode) && mode != adios2::Mode::Read && mode != adios2::Mode::ReadRandomAccess)
    {
        throw std::invalid_argument("bbflow: open " + io.Name() +
                                    " with Mode::Write, Mode::Append or Mode::Read");
    }
    if (!opened.WrittenTo.empty())
    {
        throw std::runtime_error("bbflow: '" + opened.File +
                                 "' can't be read: it was selected, so what was written under this "
                                 "name is in stream '" +
                                 opened.WrittenTo +
                                 "' and in no file; don't select what the program reads back");
    }
    const bool writes = Writes(mode);
    Parameters parameters = ReadParameters(io.Parameters(), io.Name(), opened);
    parameters.KeepOpen = writes && (parameters.KeepOpen || mode == adios2::Mode::Append);
    const bool isColumnMajor = IsColumnMajor(parameters, opened, order);
    OpenNumber number(parameters.Stream, !writes);
    parameters.Stream = number.Fill();
    parameters.File = PathOf(opened);
    WarnOfName(pluginName, parameters);
    TellOfIgnored(parameters);
    return {io, parameters, mode, opened.File, isColumnMajor, number};
}

} // end namespace bbflow
