#include "Report.h"

#include <iostream>
#include <sstream>

namespace bbflow
{

void Report::Print(const std::string &stream, const size_t rank) const
{
    std::ostringstream line;
    const auto tell = [&line](const size_t count, const char *before, const char *after)
    {
        if (count > 0)
        {
            line << (line.tellp() > 0 ? ", " : "") << before << count << after;
        }
    };
    tell(rank == 0 ? Discarded : 0, "steps ", " discarded for want of room");
    tell(Spilled, "steps ", " spilled to the SpillDirectory");
    tell(Skipped, "steps ", " skipped");
    tell(Losses, "",
         " time(s) its BB node was lost: what that held is missing until it comes back");
    if (line.tellp() > 0)
    {
        std::cerr << "bbflow: stream '" + stream + "', rank " + std::to_string(rank) + ": " +
                         line.str() + "\n"
                  << std::flush;
    }
}

} // end namespace bbflow
