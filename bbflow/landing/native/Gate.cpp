#include "Gate.h"

namespace bbflow
{

Gate::Gate(const std::string &provider, const std::string &host)
: m_Fabric(provider, host, ""), m_ScratchOpened(m_Fabric.Open(m_Scratch, sizeof(m_Scratch)))
{
}

const Fabric::Region &Gate::Grant(void *memory, const size_t bytes)
{
    const std::lock_guard<std::mutex> guard(m_Lock);
    m_Opened.push_back(m_Fabric.Open(memory, bytes));
    return m_Opened.back();
}

const Fabric::Region &Gate::Show(void *memory, const size_t bytes)
{
    const std::lock_guard<std::mutex> guard(m_Lock);
    m_Opened.push_back(m_Fabric.Show(memory, bytes));
    return m_Opened.back();
}

void Gate::Revoke()
{
    const std::lock_guard<std::mutex> guard(m_Lock);
    m_Opened.clear();
}

int Gate::Descriptor()
{
    const std::lock_guard<std::mutex> guard(m_Lock);
    return m_Fabric.Descriptor() >= 0 && m_Fabric.MayWait() ? m_Fabric.Descriptor() : -1;
}

void Gate::Progress()
{
    const std::lock_guard<std::mutex> guard(m_Lock);
    m_Fabric.Progress();
}

} // end namespace bbflow
