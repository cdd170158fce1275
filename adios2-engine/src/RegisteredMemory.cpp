#include "RegisteredMemory.h"

#include <atomic>
#include <iostream>
#include <string>
#include <utility>

namespace bbflow
{

RegisteredMemory::RegisteredMemory(std::shared_ptr<const GpuRuntime> runtime, void *home,
                                   char *begin, const size_t bytes)
: m_Runtime(std::move(runtime)), m_Home(home), m_Begin(begin), m_Bytes(bytes),
  m_IsRegistered(Register())
{
}

bool RegisteredMemory::Register()
{
    static std::atomic<bool> isSaid = false;
    const GpuRuntime::Visit visit(*m_Runtime, m_Home);
    const int status = m_Runtime->Register(m_Begin, m_Bytes, GpuRuntime::Everywhere);
    if (status != 0 && !isSaid.exchange(true))
    {
        std::cerr << std::string("bbflow: ") + m_Runtime->Name() + " can't register " +
                         std::to_string(m_Bytes) + " bytes (error " + std::to_string(status) +
                         "): blocks of the GPU are copied more slowly; see ulimit -l\n"
                  << std::flush;
    }
    if (status == 0 && m_Runtime->OnDevice(&m_OnDevice, m_Begin, 0) != 0)
    {
        m_OnDevice = nullptr;
    }
    return status == 0;
}

RegisteredMemory::~RegisteredMemory()
{
    if (m_IsRegistered && getpid() == m_Process)
    {
        const GpuRuntime::Visit visit(*m_Runtime, m_Home);
        m_Runtime->Unregister(m_Begin);
    }
}

} // end namespace bbflow
