#include "DeviceRequests.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace bbflow
{

namespace
{

constexpr size_t BufferBytes = MostBytes + 4096;

int CloneOf(const int device)
{
    const int clone = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    auto number = static_cast<uint32_t>(device);
    if (clone >= 0 && ioctl(clone, FUSE_DEV_IOC_CLONE, &number) < 0)
    {
        close(clone);
        return -1;
    }
    return clone;
}

iovec Part(const std::string_view bytes)
{
    return {const_cast<char *>(bytes.data()), bytes.size()};
}

} // end empty namespace

DeviceRequests::DeviceRequests(const int device)
: m_Device(device), m_Clone(CloneOf(device)), m_Request(BufferBytes, '\0')
{
}

DeviceRequests::~DeviceRequests()
{
    if (m_Clone >= 0)
    {
        close(m_Clone);
    }
}

const fuse_in_header *DeviceRequests::Wait(const std::atomic<bool> &isOver)
{
    while (true)
    {
        const ssize_t n = read(Descriptor(), m_Request.data(), m_Request.size());
        if (n >= static_cast<ssize_t>(sizeof(fuse_in_header)))
        {
            return reinterpret_cast<const fuse_in_header *>(m_Request.data());
        }
        // ENOENT: the call was interrupted before it was read.
        if (isOver || n >= 0 || (errno != EINTR && errno != EAGAIN && errno != ENOENT))
        {
            return nullptr;
        }
    }
}

void DeviceRequests::Answer(const fuse_out_header &header, const std::string_view head,
                            const std::string_view tail)
{
    const std::array<iovec, 3> parts = {
        iovec{const_cast<fuse_out_header *>(&header), sizeof(header)}, Part(head), Part(tail)};
    // An answer to a call that was interrupted meanwhile is refused: it isn't waited for.
    [[maybe_unused]] const ssize_t n = writev(Descriptor(), parts.data(), parts.size());
}

char *DeviceRequests::Room(const size_t bytes)
{
    if (m_Room.size() < bytes)
    {
        m_Room.resize(bytes);
    }
    return m_Room.data();
}

} // end namespace bbflow
