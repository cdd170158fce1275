#pragma once

#include "Launcher.h"

#include <string>

namespace bbflow
{

/** The BB node that a rank lands on. */
struct Place
{
    std::string Name;
    std::string Socket;
    /** How many of the stream's ranks land there. */
    size_t LocalWriters = 1;
};

/** Chooses a rank's node by the contact file (FORMAT.md, "Contact file").
 *  @throws std::runtime_error if the file isn't there or has no node on this host */
Place ChooseNode(const std::string &contactPath, const RankOf &rank);

} // end namespace bbflow
