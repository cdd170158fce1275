#include "Backings.h"

#include "Errno.h"
#include "FuseKernel.h"

#include <cerrno>
#include <chrono>

namespace bbflow
{

namespace
{

/** The kernel tells of a file's last close(2) only after that has returned. */
constexpr std::chrono::seconds ClosingTime{2};

bool IsSame(const struct stat &one, const struct stat &other)
{
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

} // end empty namespace

Passage Backings::Open(const FileId id, const int file)
{
    struct stat status = {};
    const bool isThere = file >= 0 && fstat(file, &status) == 0;
    const std::lock_guard<std::mutex> lock(m_Mutex);
    Way &way = m_Ways[id];
    if (way.Opens++ == 0 && isThere)
    {
        way.Backing = Register(file);
        way.File = status;
    }
    return {way.Backing, way.Backing != 0 && !(isThere && IsSame(way.File, status))};
}

void Backings::OpenUnbacked(const FileId id)
{
    std::unique_lock<std::mutex> lock(m_Mutex);
    const auto isUnbacked = [&]
    {
        const auto found = m_Ways.find(id);
        return found == m_Ways.end() || found->second.Backing == 0;
    };
    if (!m_Closed.wait_for(lock, ClosingTime, isUnbacked))
    {
        throw Errno(EBUSY);
    }
    ++m_Ways[id].Opens;
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
    m_Closed.notify_all();
}

} // end namespace bbflow
