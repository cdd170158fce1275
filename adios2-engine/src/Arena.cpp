#include "Arena.h"

#include <algorithm>
#include <stdexcept>

namespace bbflow
{

std::vector<Arena::Place> Arena::ReadExtents(const Value &reply)
{
    std::vector<Place> extents;
    for (const Value &extent : reply.ArrayAt("extents"))
    {
        const auto &pair = std::get<Value::Array>(extent.Get());
        extents.emplace_back(pair.at(0).AsUnsigned(), pair.at(1).AsUnsigned());
    }
    return extents;
}

size_t Arena::Padded(const size_t bytes)
{
    constexpr size_t alignment = 64;
    return (bytes + alignment - 1) / alignment * alignment;
}

bool Arena::HasRoom(const size_t bytes) const
{
    return std::any_of(m_Extents.begin(), m_Extents.end(), [&](const Extent &extent)
                       { return extent.Size - extent.Used >= Padded(bytes); });
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

void Arena::Add(const size_t offset, const size_t size)
{
    const auto isIt = [&](const Extent &extent) { return extent.Offset == offset; };
    if (std::none_of(m_Extents.begin(), m_Extents.end(), isIt))
    {
        m_Extents.push_back({offset, size, 0});
    }
}

Arena::Place Arena::ExtentAt(const size_t offset) const
{
    for (const Extent &extent : m_Extents)
    {
        if (extent.Offset <= offset && offset - extent.Offset < extent.Size)
        {
            return {extent.Offset, extent.Size};
        }
    }
    throw std::logic_error("bbflow: a block lies outside of its rank's extents");
}

bool Arena::IsAmong(const std::vector<Place> &extents) const
{
    return std::all_of(m_Extents.begin(), m_Extents.end(),
                       [&](const Extent &extent)
                       {
                           const Place place{extent.Offset, extent.Size};
                           return std::find(extents.begin(), extents.end(), place) != extents.end();
                       });
}

} // end namespace bbflow
