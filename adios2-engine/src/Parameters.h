#pragma once

#include "Contact.h"
#include "Launcher.h"
#include "Opened.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace bbflow
{

/** The engine's parameters, checked (FORMAT.md, "Engine parameters"). */
struct Parameters
{
    /** May hold `{rank}`, `{group}` and `{open}`, and nothing else in braces. */
    std::string Stream;
    std::string Contact;
    /** Absolute path of the first file that the program opened; empty where it isn't needed. */
    std::string File;
    RankOf Place;
    /** Of each writer, its host (HostNumber); empty if they aren't known. */
    std::vector<size_t> Hosts;
    /** Rank and number of the writers on this host, as the launcher counts them. */
    std::optional<RankOf> OnHost;
    size_t Groups = 1;
    /** 0: spread evenly. */
    size_t RanksPerNode = 0;
    bbflow::Transport Transport = Transport::Auto;
    /** The only provider of libfabric that counts; empty: those that are better than TCP. */
    std::string FabricProvider;
    /** Whether the node checks what comes by libfabric. */
    bool FabricChecks = true;
    /** Whether libfabric is to read a GPU's memory itself. */
    bool FabricGpu = false;
    /** Of a GPU: where the program fills what it Puts. Null: its default stream. */
    void *GpuStream = nullptr;
    std::string QueueFullPolicy = "Block";
    /** Absolute; empty if there is none. */
    std::string SpillDirectory;
    double OpenTimeoutSecs = 60.0;
    double NodeLossTimeoutSecs = 60.0;
    /** Readers hold every step until Close. */
    bool Pin = false;
    /** Close ends a file, and the end of the program the stream. */
    bool KeepOpen = false;
    /** Whether the program's arrays are column-major; nothing to ask ADIOS2. */
    std::optional<bool> IsColumnMajor;
    /** Names that are not ours, and count for nothing. */
    std::vector<std::string> Ignored;
};

/** Reads the parameters of an IO; their names don't depend on case. Programs set those of other
 * engines in their code: these are ignored, but none that looks like one of ours.
 *  @param given as adios2::IO::Parameters() has them
 *  @param ioName the stream's name where none is given
 *  @param opened gives rank and size where no parameter does
 *  @throws std::invalid_argument if a name is misspelt or a value is wrong */
Parameters ReadParameters(const std::map<std::string, std::string> &given,
                          const std::string &ioName, const Opened &opened);

} // end namespace bbflow
