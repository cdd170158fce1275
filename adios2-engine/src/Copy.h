#pragma once

#include <cstddef>

namespace bbflow
{

/** So much is copied in one go. It stays in the first cache together with what is fetched ahead. */
constexpr size_t CopyTileBytes = 16384;

/** Copies a tile past the caches, for it isn't read again here soon; what follows a whole tile
 * in the source is fetched meanwhile.
 *  @param target aligned to 16 bytes
 *  @param bytes at most CopyTileBytes */
void StreamTile(char *target, const char *source, size_t bytes);

/** Makes copied tiles visible to other processes. */
void FinishCopies();

} // end namespace bbflow
