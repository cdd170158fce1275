#include "SharedLanding.h"

#include "Copy.h"

#include <algorithm>

namespace bbflow
{

void SharedLanding::Land(const char *source, const size_t bytes, const size_t offset, Scan &scan)
{
    char *target = m_Pool->At(offset);
    for (size_t i = 0; i < bytes; i += CopyTileBytes)
    {
        const size_t n = std::min(CopyTileBytes, bytes - i);
        scan.See(source + i, n);
        StreamTile(target + i, source + i, n);
    }
    // Stores past the caches reach memory in any order: the commit may go only once all are there.
    FinishCopies();
}

} // end namespace bbflow
