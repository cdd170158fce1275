#pragma once

#include <cstddef>
#include <memory>

namespace bbflow
{

/** Whether the program has a runtime for GPUs that can be asked: CUDA's driver or HIP. */
bool HasDevices();

/** Whether memory is a GPU's, where the CPU can't read it. */
bool IsOnDevice(const void *memory);

/** Memory of the host that a GPU's is copied into, by the runtime that the program has loaded. It
 * is as large as the largest block and is kept for the next, its pages locked where the runtime
 * can: a GPU then writes them itself, some four times as fast. */
class DeviceCopy
{
public:
    DeviceCopy() = default;
    ~DeviceCopy();
    DeviceCopy(const DeviceCopy &) = delete;
    DeviceCopy &operator=(const DeviceCopy &) = delete;

    /** A copy, which lasts until the next.
     *  @throws std::runtime_error if the runtime can't copy */
    const void *Of(const void *source, size_t bytes);

private:
    std::unique_ptr<char[]> m_Memory;
    size_t m_Bytes = 0;
    bool m_IsLocked = false;

    void Grow(const void *source, size_t bytes);
    void Free();
};

} // end namespace bbflow
