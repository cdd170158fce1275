#pragma once

#include "RemapAdd.h"
#include "RemapMean.h"

namespace bbflow
{

constexpr uint64_t PlanesAtOnce = 8; ///< as many as there are registers for
constexpr uint64_t PlaneStride = SpanGroups * GroupColumns + 8;

/** Where the links of a tile begin and end, and the values of its columns. */
struct LinkTile
{
    int64_t Begin;
    int64_t End;
    const uint16_t *Places; ///< of all links
    const double *Values;   ///< of shape (columns, planes)
};

/** Sums of the links of a row, or of some of them. */
template <uint64_t COUNT>
struct RowSums
{
    double Sums[COUNT];
    double Weights[COUNT];
    bool Lacking[COUNT]; ///< whether something is missing, or infinite
};

/** Where a group's results go. */
struct Results
{
    double *Sums[PlanesAtOnce];
    double *Weights[PlanesAtOnce];
    RowSums<PlanesAtOnce> Begun; ///< what earlier tiles have of a row that lies in several
};

/**
 * Puts the planes' values of each column side by side.
 * @param count 2, 4 or 8
 * @param planes of shape (count, PlaneStride)
 * @param out of shape (columns, count)
 */
void TurnPlanes(uint64_t count, const double *planes, uint64_t columns, double *out);

/**
 * Reduces the links of a tile; of the first and the last row others may have parts, too.
 * @param count of the planes: 1, 2, 4 or 8
 * @param row the one that the tile begins with
 * @return the row that the next one begins with
 */
uint64_t ReduceTile(uint64_t count, const BbflowLinks &links, const LinkTile &tile, uint64_t row,
                    Results &results);

} // end namespace bbflow
