#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace bbflow
{

/** The extents of one step: blocks are placed one behind the other. */
class Arena
{
public:
    /** Bytes that a block takes up with what keeps the next one aligned. */
    static size_t Padded(size_t bytes);

    void Clear() { m_Extents.clear(); }
    void Add(const size_t offset, const size_t size) { m_Extents.push_back({offset, size, 0}); }

    /** Gives the place of a block in the pool; nothing if no extent has room for it. */
    std::optional<size_t> Take(size_t bytes);

    /** Bytes taken so far. */
    size_t Used() const;

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
