#include "Reply.h"

#include <cmath>

namespace bbflow
{

namespace
{

/** As the kernel has it. */
struct Duration
{
    uint64_t Secs;
    uint32_t Nanosecs;
};

Duration DurationOf(const double seconds)
{
    return {static_cast<uint64_t>(seconds),
            static_cast<uint32_t>((seconds - std::floor(seconds)) * 1e9)};
}

template <class T>
void SetValid(T &kernel, const double seconds)
{
    const Duration duration = DurationOf(seconds);
    kernel.attr_valid = duration.Secs;
    kernel.attr_valid_nsec = duration.Nanosecs;
}

} // end empty namespace

void Reply::Send(const std::string_view head, const std::string_view tail) { Write(0, head, tail); }

void Reply::Fail(const int number) { Write(-number, {}, {}); }

void Reply::Write(const int error, const std::string_view head, const std::string_view tail)
{
    fuse_out_header header{};
    header.len = static_cast<uint32_t>(sizeof(header) + head.size() + tail.size());
    header.error = error;
    header.unique = m_Unique;
    m_Requests.Answer(header, head, tail);
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

fuse_attr_out ToKernel(const struct stat &attributes, const double validSecs)
{
    fuse_attr_out kernel{};
    SetValid(kernel, validSecs);
    kernel.attr = ToKernel(attributes);
    return kernel;
}

fuse_entry_out ToKernel(const Entry &entry, const uint64_t node, const double validSecs,
                        const double nameSecs)
{
    fuse_entry_out kernel{};
    kernel.nodeid = node;
    SetValid(kernel, validSecs);
    const Duration name = DurationOf(nameSecs);
    kernel.entry_valid = name.Secs;
    kernel.entry_valid_nsec = name.Nanosecs;
    kernel.attr = ToKernel(entry.Attributes);
    return kernel;
}

} // end namespace bbflow
