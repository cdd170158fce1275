#include "Backings.h"

#include "FuseKernel.h"

#include <cerrno>

namespace bbflow
{

namespace
{

bool IsSame(const struct stat &one, const struct stat &other)
{
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

} // end empty namespace

Passage Backings::Open(const uint64_t node, const int file)
{
    struct stat status = {};
    const bool isThere = file >= 0 && fstat(file, &status) == 0;
    const std::lock_guard<std::mutex> lock(m_Mutex);
    OpenNode &open = m_Open[node];
    if (open.Opens++ == 0 && isThere)
    {
        open.Backing = Register(file);
        open.File = status;
    }
    return {open.Backing, open.Backing != 0 && !(isThere && IsSame(open.File, status))};
}

bool Backings::IsBackedLocked(const uint64_t node) const
{
    const auto found = m_Open.find(node);
    return found != m_Open.end() && found->second.Backing != 0;
}

bool Backings::IsBacked(const uint64_t node)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    return IsBackedLocked(node);
}

bool Backings::IsCached(const uint64_t node)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    const auto found = m_Open.find(node);
    return found != m_Open.end() && found->second.Backing == 0;
}

bool Backings::TryOpenUnbacked(const uint64_t node)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    if (IsBackedLocked(node))
    {
        return false;
    }
    ++m_Open[node].Opens;
    return true;
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

void Backings::Close(const uint64_t node)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    const auto found = m_Open.find(node);
    if (found == m_Open.end() || --found->second.Opens > 0)
    {
        return;
    }
    if (found->second.Backing != 0)
    {
        auto backing = static_cast<uint32_t>(found->second.Backing);
        ioctl(m_Device, FUSE_DEV_IOC_BACKING_CLOSE, &backing);
    }
    m_Open.erase(found);
}

} // end namespace bbflow
