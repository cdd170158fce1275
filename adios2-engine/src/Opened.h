#pragma once

#include "Launcher.h"

#include <optional>
#include <string>
#include <vector>

namespace bbflow
{

/** What is known of an Open beside the IO's parameters. */
struct Opened
{
    /** As the program calls it; empty if unknown. */
    std::string File;
    /** Rank in the communicator that opens. */
    std::optional<RankOf> Place;
    /** Of each rank there, its host (HostNumber); empty if unknown. */
    std::vector<size_t> Hosts;
    /** Whether arrays of the IO are column-major. */
    std::optional<bool> IsColumnMajor;
    /** The stream that holds what the program reads back, for which it finds no file; else empty.
     */
    std::string WrittenTo;
};

/** Asks the library that is preloaded in front of ADIOS2, if there is one (Opening.h).
 *  @throws std::runtime_error if the library is of another version of bbflow */
Opened AskPreloaded();

/** Whether ADIOS2's communicators are MPI's in this process. Without its library for MPI each
 *  process is rank 0 of 1, though a launcher may have started many. */
bool HasMpi();

} // end namespace bbflow
