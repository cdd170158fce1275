#include "KeptMemory.h"

#include <cstring>
#include <functional>

namespace bbflow
{

namespace
{

constexpr size_t Capacity = size_t{32} << 20;

} // end empty namespace

const char *KeptMemory::Keep(const char *bytes, const size_t n)
{
    if (n > Capacity - m_Used)
    {
        return nullptr;
    }
    if (!m_Memory)
    {
        m_Memory.reset(new char[Capacity]); // its pages come when they are written
    }
    char *copy = m_Memory.get() + m_Used;
    std::memcpy(copy, bytes, n);
    m_Used += n;
    return copy;
}

bool KeptMemory::Holds(const char *address) const
{
    const std::less<const char *> before;
    return m_Memory && !before(address, m_Memory.get()) &&
           before(address, m_Memory.get() + Capacity);
}

} // end namespace bbflow
