#pragma once

#include "Value.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace bbflow
{

/** The extents of one step: blocks are placed one behind the other. */
class Arena
{
public:
    /** Offset and size. */
    using Place = std::pair<size_t, size_t>;

    /** The `extents` of a node's reply. */
    static std::vector<Place> ReadExtents(const Value &reply);

    /** Bytes that a block takes up with what keeps the next one aligned. */
    static size_t Padded(size_t bytes);

    void Clear() { m_Extents.clear(); }

    /** Adds an extent, unless it is there already. */
    void Add(size_t offset, size_t size);

    /** Whether all extents are among these. */
    bool IsAmong(const std::vector<Place> &extents) const;

    /** The extent in which a place of the pool lies. */
    Place ExtentAt(size_t offset) const;

    /** Whether an extent has room for a block. */
    bool HasRoom(size_t bytes) const;

    /** Returns the place of a block in the pool; nothing if no extent has room for it. */
    std::optional<size_t> Take(size_t bytes);

private:
    struct Extent
    {
        size_t Offset;
        size_t Size;
        size_t Used;
    };
    std::vector<Extent> m_Extents;
};

} // end namespace bbflow
