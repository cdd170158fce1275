#pragma once

#include <cstddef>
#include <memory>

namespace bbflow
{

/** Bounded memory for copies of blocks that the caller may overwrite before they are safe. */
class KeptMemory
{
public:
    /** Copies bytes; nullptr if there is no room left for them. */
    const char *Keep(const char *bytes, size_t n);

    /** Forgets all copies; the memory is used again. */
    void Clear() { m_Used = 0; }

    /** Whether an address lies in here. */
    bool Holds(const char *address) const;

private:
    std::unique_ptr<char[]> m_Memory;
    size_t m_Used = 0;
};

} // end namespace bbflow
