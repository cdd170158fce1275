#pragma once

#include "Caller.h"
#include "Errno.h"
#include "FuseKernel.h"
#include "NodeIds.h"

#include <string>
#include <string_view>

namespace bbflow
{

/** One request of the kernel, as it lies in a thread's buffer. */
class Request
{
public:
    Request(const fuse_in_header &header, const std::atomic<bool> &isInterrupted)
    : Header(header), By{header.uid, header.gid, header.pid, isInterrupted}
    {
    }

    const fuse_in_header &Header;
    const Caller By;

    FileId File() const { return NodeIds::FileOf(Header.nodeid); }

    /** What follows the header. */
    std::string_view Body() const
    {
        return {reinterpret_cast<const char *>(&Header + 1), Header.len - sizeof(Header)};
    }

    /** The opcode's own struct. @throws Errno if the request is too short for it */
    template <class T>
    const T &As() const
    {
        if (Body().size() < sizeof(T))
        {
            throw Errno(EINVAL);
        }
        return *reinterpret_cast<const T *>(Body().data());
    }

    /** The text, without its zero byte, that starts this many bytes into the body.
     *  @throws Errno if there is none, or it is too long for a name */
    std::string TextAt(const size_t offset, const size_t most = 255) const
    {
        const std::string_view rest = Body().substr(std::min(offset, Body().size()));
        const size_t end = rest.find('\0');
        if (end == std::string_view::npos)
        {
            throw Errno(EINVAL);
        }
        if (end > most)
        {
            throw Errno(ENAMETOOLONG);
        }
        return std::string(rest.substr(0, end));
    }
};

} // end namespace bbflow
