#include "Arena.h"

namespace bbflow
{

size_t Arena::Padded(const size_t bytes)
{
    constexpr size_t alignment = 64;
    return (bytes + alignment - 1) / alignment * alignment;
}

std::optional<size_t> Arena::Take(const size_t bytes)
{
    for (Extent &extent : m_Extents)
    {
        if (extent.Size - extent.Used >= Padded(bytes))
        {
            const size_t offset = extent.Offset + extent.Used;
            extent.Used += Padded(bytes);
            return offset;
        }
    }
    return std::nullopt;
}

size_t Arena::Used() const
{
    size_t used = 0;
    for (const Extent &extent : m_Extents)
    {
        used += extent.Used;
    }
    return used;
}

} // end namespace bbflow
