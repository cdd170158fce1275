#pragma once

#include "KernelRequests.h"

#include <string>
#include <vector>

namespace bbflow
{

/** Requests that are read from /dev/fuse, one call for each and one for its answer. */
class DeviceRequests final : public KernelRequests
{
public:
    /** @param device the mount's descriptor; a queue of its own is opened where the kernel can, so
     *  that threads don't wait for each other */
    explicit DeviceRequests(int device);
    ~DeviceRequests() override;
    DeviceRequests(const DeviceRequests &) = delete;
    DeviceRequests &operator=(const DeviceRequests &) = delete;

    const fuse_in_header *Wait(const std::atomic<bool> &isOver) override;
    void Answer(const fuse_out_header &header, std::string_view head,
                std::string_view tail) override;
    char *Room(size_t bytes) override;

private:
    const int m_Device;
    const int m_Clone;
    std::string m_Request;
    std::vector<char> m_Room;

    int Descriptor() const { return m_Clone >= 0 ? m_Clone : m_Device; }
};

} // end namespace bbflow
