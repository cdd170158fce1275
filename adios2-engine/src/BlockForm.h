#pragma once

#include <adios2.h>

#include <algorithm>
#include <string>
#include <vector>

namespace bbflow
{

/** What doesn't change of a block from step to step, but for its place (FORMAT.md, "Layout"). */
struct BlockForm
{
    std::string Name;
    std::string Type;
    const char *Kind = "Unknown";
    std::vector<size_t> Shape, Start, Count;

    bool operator==(const BlockForm &other) const
    {
        return Name == other.Name && Type == other.Type && Kind == other.Kind &&
               Shape == other.Shape && Start == other.Start && Count == other.Count;
    }
};

/** What is known of a block when it is Put, with dimensions as the program gives them. */
template <class T>
BlockForm FormOf(const adios2::Variable<T> &variable)
{
    static const char *const kinds[] = {"Unknown",     "GlobalValue", "GlobalArray",
                                        "JoinedArray", "LocalValue",  "LocalArray"};
    const size_t kind = static_cast<size_t>(variable.ShapeID());
    return {variable.Name(),  adios2::GetType<T>(), kinds[kind < 6 ? kind : 0],
            variable.Shape(), variable.Start(),     variable.Count()};
}

/** Turns round the order of its dimensions. */
inline void Reverse(BlockForm &form)
{
    std::reverse(form.Shape.begin(), form.Shape.end());
    std::reverse(form.Start.begin(), form.Start.end());
    std::reverse(form.Count.begin(), form.Count.end());
}

} // end namespace bbflow
