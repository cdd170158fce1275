#include "Interrupts.h"

namespace bbflow
{

Interrupts::Scope::Scope(Interrupts &all, const uint64_t unique) : m_All(all), m_Unique(unique)
{
    const std::lock_guard<std::mutex> lock(m_All.m_Mutex);
    m_All.m_Served[unique] = this;
}

Interrupts::Scope::~Scope()
{
    const std::lock_guard<std::mutex> lock(m_All.m_Mutex);
    m_All.m_Served.erase(m_Unique);
}

bool Interrupts::Interrupt(const uint64_t unique)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    const auto found = m_Served.find(unique);
    if (found == m_Served.end())
    {
        return false;
    }
    found->second->IsInterrupted = true;
    return true;
}

} // end namespace bbflow
