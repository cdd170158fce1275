#pragma once

#include "Contact.h"
#include "Launcher.h"

#include <map>
#include <string>

namespace bbflow
{

/** The engine's parameters, checked (FORMAT.md, "Engine parameters"). */
struct Parameters
{
    /** May hold `{rank}`, `{group}` and `{open}`, and nothing else in braces. */
    std::string Stream;
    std::string Contact;
    RankOf Place;
    size_t Groups = 1;
    /** 0: spread evenly. */
    size_t RanksPerNode = 0;
    bbflow::Transport Transport = Transport::Auto;
    std::string QueueFullPolicy = "Block";
    /** Absolute; empty if there is none. */
    std::string SpillDirectory;
    double OpenTimeoutSecs = 60.0;
    double NodeLossTimeoutSecs = 60.0;
    /** Readers hold every step until Close. */
    bool Pin = false;
};

/** Reads the parameters of an IO; their names don't depend on case.
 *  @param given as adios2::IO::Parameters() has them
 *  @param ioName the stream's name where none is given
 *  @throws std::invalid_argument if a name is unknown or a value is wrong */
Parameters ReadParameters(const std::map<std::string, std::string> &given,
                          const std::string &ioName);

} // end namespace bbflow
