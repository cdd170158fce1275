#include "StreamShare.h"

namespace bbflow
{

namespace
{

/** Replaces each occurrence; tells whether there was one. */
bool Replace(std::string &text, const std::string &what, const size_t number)
{
    bool found = false;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at))
    {
        text.replace(at, what.size(), std::to_string(number));
        found = true;
    }
    return found;
}

} // end empty namespace

StreamShare ShareOf(const Parameters &parameters)
{
    const auto [rank, writers] = parameters.Place;
    const size_t groups = parameters.Groups;
    const size_t group = rank * groups / writers;
    const auto firstOf = [&](const size_t g) { return (g * writers + groups - 1) / groups; };
    StreamShare share{parameters.Stream, 0, writers};
    if (Replace(share.Stream, "{group}", group))
    {
        share.FirstRank = firstOf(group);
        share.Ranks = firstOf(group + 1) - share.FirstRank;
    }
    if (Replace(share.Stream, "{rank}", rank))
    {
        share.FirstRank = rank;
        share.Ranks = 1;
    }
    return share;
}

} // end namespace bbflow
