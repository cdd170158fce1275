#include "Reply.h"

#include <array>
#include <sys/uio.h>

namespace bbflow
{

namespace
{

iovec Part(const std::string_view bytes)
{
    return {const_cast<char *>(bytes.data()), bytes.size()};
}

} // end empty namespace

void Reply::Send(const std::string_view head, const std::string_view tail) { Write(0, head, tail); }

void Reply::Fail(const int number) { Write(-number, {}, {}); }

void Reply::Write(const int error, const std::string_view head, const std::string_view tail)
{
    m_IsSent = true;
    fuse_out_header header{};
    header.len = static_cast<uint32_t>(sizeof(header) + head.size() + tail.size());
    header.error = error;
    header.unique = m_Unique;
    const std::array<iovec, 3> parts = {iovec{&header, sizeof(header)}, Part(head), Part(tail)};
    // An answer to a call that was interrupted meanwhile is refused: nobody waits for it.
    [[maybe_unused]] const ssize_t n = writev(m_Device, parts.data(), parts.size());
}

fuse_attr ToKernel(const struct stat &attributes)
{
    fuse_attr kernel{};
    kernel.ino = attributes.st_ino;
    kernel.size = static_cast<uint64_t>(attributes.st_size);
    kernel.blocks = static_cast<uint64_t>(attributes.st_blocks);
    kernel.atime = static_cast<uint64_t>(attributes.st_atim.tv_sec);
    kernel.mtime = static_cast<uint64_t>(attributes.st_mtim.tv_sec);
    kernel.ctime = static_cast<uint64_t>(attributes.st_ctim.tv_sec);
    kernel.atimensec = static_cast<uint32_t>(attributes.st_atim.tv_nsec);
    kernel.mtimensec = static_cast<uint32_t>(attributes.st_mtim.tv_nsec);
    kernel.ctimensec = static_cast<uint32_t>(attributes.st_ctim.tv_nsec);
    kernel.mode = attributes.st_mode;
    kernel.nlink = static_cast<uint32_t>(attributes.st_nlink);
    kernel.uid = attributes.st_uid;
    kernel.gid = attributes.st_gid;
    kernel.rdev = static_cast<uint32_t>(attributes.st_rdev);
    kernel.blksize = static_cast<uint32_t>(attributes.st_blksize);
    return kernel;
}

fuse_entry_out ToKernel(const Entry &entry)
{
    fuse_entry_out kernel{};
    kernel.nodeid = entry.Id;
    kernel.attr = ToKernel(entry.Attributes);
    return kernel;
}

} // end namespace bbflow
