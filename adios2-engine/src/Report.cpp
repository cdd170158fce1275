#include "Report.h"

#include <iostream>
#include <sstream>

namespace bbflow
{

void Report::Print(const std::string &stream, const size_t rank) const
{
    std::ostringstream line;
    const auto tell = [&line](const size_t steps, const char *what)
    {
        if (steps > 0)
        {
            line << (line.tellp() > 0 ? ", " : "") << steps << what;
        }
    };
    tell(rank == 0 ? Discarded : 0, " discarded for want of room");
    tell(Spilled, " spilled to the SpillDirectory");
    tell(Skipped, " skipped since their BB node was lost");
    if (line.tellp() > 0)
    {
        std::cerr << "bbflow: stream '" + stream + "', rank " + std::to_string(rank) + ": steps " +
                         line.str() + "\n"
                  << std::flush;
    }
}

} // end namespace bbflow
