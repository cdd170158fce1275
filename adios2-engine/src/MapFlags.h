#pragma once

#include <sys/mman.h>
#include <sys/stat.h>

namespace bbflow
{

/** Flags to map a file of a node: all pages at once if they are there. To map others ahead would
 *  make them, in room that a pool without streams has left to the node's files. */
inline int MapFlags(const struct stat &status)
{
    constexpr blkcnt_t unit = 512;
    const bool isBacked = status.st_blocks >= (status.st_size + unit - 1) / unit;
    return isBacked ? MAP_SHARED | MAP_POPULATE : MAP_SHARED;
}

} // end namespace bbflow
