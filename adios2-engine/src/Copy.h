#pragma once

#include <cstddef>

namespace bbflow
{

/** Copies bytes that nobody here reads again soon: large copies go past the caches.
 *  @param target aligned to 16 bytes */
void StreamCopy(char *target, const char *source, size_t bytes);

/** Makes the copies of StreamCopy visible to other processes. */
void FinishCopies();

} // end namespace bbflow
