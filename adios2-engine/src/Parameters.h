#pragma once

#include "Launcher.h"

#include <map>
#include <string>

namespace bbflow
{

/** The engine's parameters, checked (FORMAT.md, "Engine parameters"). */
struct Parameters
{
    std::string Stream;
    std::string Contact;
    RankOf Place;
    std::string QueueFullPolicy = "Block";
    double OpenTimeoutSecs = 60.0;
};

/** Reads the parameters of an IO; their names don't depend on case.
 *  @param given as adios2::IO::Parameters() has them
 *  @param ioName the stream's name where none is given
 *  @throws std::invalid_argument if a name is unknown or a value is wrong */
Parameters ReadParameters(const std::map<std::string, std::string> &given,
                          const std::string &ioName);

} // end namespace bbflow
