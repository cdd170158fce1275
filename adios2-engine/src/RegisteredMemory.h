#pragma once

#include "GpuRuntime.h"

#include <unistd.h>

namespace bbflow
{

/** Memory of the host that a GPU writes without the CPU, for as long as this lives. Copies into
 * memory that can't be registered work too, some seven times as slowly: that is said once. */
class RegisteredMemory
{
public:
    /** @param home of the runtime's, in which it is registered and given back */
    RegisteredMemory(std::shared_ptr<const GpuRuntime> runtime, void *home, char *begin,
                     size_t bytes);
    ~RegisteredMemory();
    RegisteredMemory(const RegisteredMemory &) = delete;
    RegisteredMemory &operator=(const RegisteredMemory &) = delete;

    size_t Bytes() const { return m_Bytes; }

    /** Where the GPU's kernels see a place in it; nullptr if they don't. */
    void *OnDevice(const char *place) const
    {
        return m_OnDevice ? static_cast<char *>(m_OnDevice) + (place - m_Begin) : nullptr;
    }

private:
    const std::shared_ptr<const GpuRuntime> m_Runtime;
    void *const m_Home;
    char *const m_Begin;
    const size_t m_Bytes;
    void *m_OnDevice = nullptr;
    const bool m_IsRegistered;
    /** A fork has a copy of this, but the registration is its parent's. */
    const pid_t m_Process = getpid();

    bool Register();
};

} // end namespace bbflow
