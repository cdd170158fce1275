#include "SharedLanding.h"

#include "Copy.h"

#include <algorithm>

namespace bbflow
{

void SharedLanding::Land(const char *source, const size_t bytes, const size_t offset, Scan &scan)
{
    // Bytes that are looked at and copied in one go: they stay in the first cache between both.
    constexpr size_t tileBytes = 4096;
    char *target = m_Pool->At(offset);
    for (size_t i = 0; i < bytes; i += tileBytes)
    {
        const size_t n = std::min(tileBytes, bytes - i);
        scan.See(source + i, n);
        StreamCopy(target + i, source + i, n);
    }
    FinishCopies();
}

} // end namespace bbflow
