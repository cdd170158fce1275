#include "Backings.h"

#include "FuseKernel.h"

#include <cerrno>

namespace bbflow
{

int32_t Backings::Open(const FileId id, const int file)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    Way &way = m_Ways[id];
    if (way.Opens++ == 0 && file >= 0)
    {
        way.Backing = Register(file);
    }
    return way.Backing;
}

int32_t Backings::Register(const int file)
{
    if (!m_IsEnabled)
    {
        return 0;
    }
    fuse_backing_map map{};
    map.fd = file;
    const int id = ioctl(m_Device, FUSE_DEV_IOC_BACKING_OPEN, &map);
    if (id < 0 && errno == EPERM)
    {
        m_IsEnabled = false; // the kernel lets root only; it won't change its mind
    }
    return id < 0 ? 0 : id;
}

void Backings::Close(const FileId id)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    const auto found = m_Ways.find(id);
    if (found == m_Ways.end() || --found->second.Opens > 0)
    {
        return;
    }
    if (found->second.Backing != 0)
    {
        auto backing = static_cast<uint32_t>(found->second.Backing);
        ioctl(m_Device, FUSE_DEV_IOC_BACKING_CLOSE, &backing);
    }
    m_Ways.erase(found);
}

} // end namespace bbflow
