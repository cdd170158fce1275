#include "Levels.h"
#include "Many.h"
#include "RemapMean.h"

#include <cstddef>
#include <sstream>
#include <string>

namespace
{

#define STRUCT(type) "; " #type " " << sizeof(type)
#define FIELD(type, name) " " #name "@" << offsetof(type, name)

std::string Described()
{
    std::ostringstream text;
    text << STRUCT(BbflowTask) << FIELD(BbflowTask, Source) << FIELD(BbflowTask, Target)
         << FIELD(BbflowTask, Blocks) << FIELD(BbflowTask, Steps) << FIELD(BbflowTask, Points)
         << FIELD(BbflowTask, Fill) << FIELD(BbflowTask, Filters) << FIELD(BbflowTask, FilterCount);
    text << STRUCT(BbflowFilter) << FIELD(BbflowFilter, Lowest) << FIELD(BbflowFilter, Highest)
         << FIELD(BbflowFilter, Skip) << FIELD(BbflowFilter, Rows);
    text << STRUCT(BbflowRow) << FIELD(BbflowRow, Step) << FIELD(BbflowRow, Index);
    text << STRUCT(BbflowMergeTask) << FIELD(BbflowMergeTask, Left) << FIELD(BbflowMergeTask, Right)
         << FIELD(BbflowMergeTask, Target) << FIELD(BbflowMergeTask, Points);
    text << STRUCT(BbflowBins) << FIELD(BbflowBins, Breaks) << FIELD(BbflowBins, Cells)
         << FIELD(BbflowBins, Start) << FIELD(BbflowBins, CellsPerUnit)
         << FIELD(BbflowBins, CellCount) << FIELD(BbflowBins, Rows) << FIELD(BbflowBins, OneStep);
    text << STRUCT(BbflowPlaces) << FIELD(BbflowPlaces, Fields) << FIELD(BbflowPlaces, Stride);
    text << STRUCT(BbflowFamilyTask) << FIELD(BbflowFamilyTask, Task)
         << FIELD(BbflowFamilyTask, Kind) << FIELD(BbflowFamilyTask, Size)
         << FIELD(BbflowFamilyTask, Top) << FIELD(BbflowFamilyTask, Bins)
         << FIELD(BbflowFamilyTask, Left) << FIELD(BbflowFamilyTask, Right)
         << FIELD(BbflowFamilyTask, Target);
    text << STRUCT(BbflowColumns) << FIELD(BbflowColumns, Before) << FIELD(BbflowColumns, Levels)
         << FIELD(BbflowColumns, After) << FIELD(BbflowColumns, Interfaces)
         << FIELD(BbflowColumns, Targets) << FIELD(BbflowColumns, Values)
         << FIELD(BbflowColumns, Fill) << FIELD(BbflowColumns, A) << FIELD(BbflowColumns, B)
         << FIELD(BbflowColumns, Surface) << FIELD(BbflowColumns, Points)
         << FIELD(BbflowColumns, To) << FIELD(BbflowColumns, Result) << FIELD(BbflowColumns, Sign)
         << FIELD(BbflowColumns, Double) << FIELD(BbflowColumns, Wide) << FIELD(BbflowColumns, Make)
         << FIELD(BbflowColumns, Log) << FIELD(BbflowColumns, Linear)
         << FIELD(BbflowColumns, Lowest);
    text << STRUCT(BbflowLinks) << FIELD(BbflowLinks, Rows) << FIELD(BbflowLinks, Starts)
         << FIELD(BbflowLinks, Columns) << FIELD(BbflowLinks, Weights)
         << FIELD(BbflowLinks, Totals);
    text << STRUCT(BbflowPlanes) << FIELD(BbflowPlanes, Blocks) << FIELD(BbflowPlanes, Steps)
         << FIELD(BbflowPlanes, Offsets) << FIELD(BbflowPlanes, Planes)
         << FIELD(BbflowPlanes, Stride) << FIELD(BbflowPlanes, Fill);
    text << STRUCT(BbflowTiles) << FIELD(BbflowTiles, Links) << FIELD(BbflowTiles, MostGroups)
         << FIELD(BbflowTiles, Places) << FIELD(BbflowTiles, Groups) << FIELD(BbflowTiles, Firsts)
         << FIELD(BbflowTiles, Columns);
    return text.str().substr(2);
}

} // end anonymous namespace

const char *bbflow_structs()
{
    static const std::string described = Described();
    return described.c_str();
}
