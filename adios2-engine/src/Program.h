#pragma once

#include "OpenNumber.h"
#include "Opened.h"
#include "Parameters.h"

#include <adios2.h>

#include <optional>
#include <string>

namespace bbflow
{

inline bool Writes(const adios2::Mode mode)
{
    return mode == adios2::Mode::Write || mode == adios2::Mode::Append;
}

/** The program that opens a stream, whatever version of ADIOS2 it does that with. */
struct Program
{
    adios2::IO Io;
    bbflow::Parameters Parameters;
    adios2::Mode Mode;
    /** As it calls what it opens; empty if unknown. */
    std::string File;
    /** Whether its arrays are column-major. */
    bool IsColumnMajor;
    /** To be counted when the stream is open. */
    OpenNumber Number;

    bool Writes() const { return bbflow::Writes(Mode); }
};

/** Looks at an Open.
 *  @param pluginName the engine's name in the IO's parameters
 *  @param order whether the arrays of the IO are column-major, if ADIOS2 says so
 *  @throws std::invalid_argument if a parameter is wrong or the order isn't clear */
Program LookAt(adios2::IO io, const std::string &pluginName, adios2::Mode mode,
               const Opened &opened, const std::optional<bool> &order);

} // end namespace bbflow
