#pragma once

#include "Remap.h"

/**
 * The links in tiles, of `Links` each, row by row. The columns of a tile are brought into the cache
 * together, in groups of eight that follow each other: some that have no links are among them.
 */
struct BbflowTiles
{
    uint64_t Links;
    uint64_t MostGroups;    ///< of a tile
    const uint16_t *Places; ///< which of its tile's columns each link has
    const int64_t *Groups;  ///< where each tile's groups begin; one more than tiles
    const uint32_t *Firsts; ///< the first column of each group
    uint64_t Columns;       ///< all columns that have links are below
};

extern "C"
{
    /**
     * Cuts links into tiles.
     * @param columns of each link, row by row
     * @param all of the columns are below
     * @param tileLinks at most 8192
     * @param places, groups, firsts as in BbflowTiles; room for as many as links
     * @return how many groups there are; -1 if there is no memory
     */
    __attribute__((visibility("default"))) int64_t
    bbflow_remap_tiles(const uint32_t *columns, uint64_t links, uint64_t all, uint64_t tileLinks,
                       uint16_t *places, int64_t *groups, uint32_t *firsts);

    /**
     * Gives sum(w * x) and sum(w) over the valid x of each row, where x is the sum over all steps.
     * @param parts of shape (2, planes, rows)
     * @param steady of each plane: 1; or 0 if it can't be given, since a point has valid values in
     * some of the steps only, or infinite ones. Planes go along with others, up to seven.
     * @return 0; 1 if there is no memory; 2 if there is no such type
     */
    __attribute__((visibility("default"))) int bbflow_remap_sum(int type, const BbflowLinks *links,
                                                                const BbflowTiles *tiles,
                                                                const BbflowPlanes *planes,
                                                                double *parts, uint8_t *steady);
}
