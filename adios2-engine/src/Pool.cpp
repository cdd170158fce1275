#include "Pool.h"

#include "MapFlags.h"
#include "PoolFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace bbflow
{

namespace
{

std::mutex Lock;
std::map<std::string, std::weak_ptr<Pool>> Shared; // by path, guarded by Lock

} // end empty namespace

std::shared_ptr<Pool> Pool::Share(const std::string &path, const size_t capacity)
{
    const std::lock_guard<std::mutex> guard(Lock);
    // A node that was started afresh has another file by that name.
    std::shared_ptr<Pool> pool = Shared[path].lock();
    if (!pool || pool->Capacity() != capacity || !pool->IsAt(path))
    {
        pool = std::make_shared<Pool>(path, capacity);
        // It was replaced while it was mapped: what lands there nobody would see.
        if (!pool->IsAt(path))
        {
            ThrowPoolLost(path);
        }
        Shared[path] = pool;
    }
    return pool;
}

Pool::Pool(const std::string &path, const size_t capacity) : m_Capacity(capacity)
{
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    void *begin = MAP_FAILED;
    if (file >= 0 && fstat(file, &m_File) == 0 && static_cast<size_t>(m_File.st_size) >= capacity)
    {
        begin = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MapFlags(m_File), file, 0);
    }
    const std::string reason = std::strerror(errno);
    if (file >= 0)
    {
        close(file);
    }
    if (begin == MAP_FAILED)
    {
        throw std::runtime_error("bbflow: can't map the pool " + path + " (" + reason + ")");
    }
    m_Begin = static_cast<char *>(begin);
}

Pool::~Pool()
{
    m_Registered.clear(); // before the unmap: a driver still writes into registered memory
    munmap(m_Begin, m_Capacity);
}

std::shared_ptr<const RegisteredMemory> Pool::Register(std::shared_ptr<const GpuRuntime> runtime,
                                                       void *home, const size_t offset,
                                                       const size_t bytes)
{
    const std::lock_guard<std::mutex> guard(m_Lock);
    // The last one that begins before the extent's end, and those before it, as far as they reach.
    auto next = m_Registered.lower_bound(offset + bytes);
    while (next != m_Registered.begin())
    {
        const auto before = std::prev(next);
        const RegisteredMemory &other = *before->second;
        if (before->first == offset && other.Bytes() == bytes)
        {
            return before->second;
        }
        if (before->first + other.Bytes() <= offset)
        {
            break;
        }
        next = m_Registered.erase(before);
    }
    auto registered =
        std::make_shared<const RegisteredMemory>(std::move(runtime), home, At(offset), bytes);
    m_Registered.emplace(offset, registered);
    return registered;
}

void Pool::Unregister()
{
    const std::lock_guard<std::mutex> guard(m_Lock);
    m_Registered.clear();
}

bool Pool::IsAt(const std::string &path) const { return IsPoolAt(path, m_File); }

} // end namespace bbflow
