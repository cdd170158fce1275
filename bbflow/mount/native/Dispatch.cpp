#include "Dispatch.h"

#include <iostream>
#include <unordered_map>

namespace bbflow
{

Dispatch::Method Dispatch::MethodOf(const uint32_t opcode)
{
    static const std::unordered_map<uint32_t, Method> methods = {
        {FUSE_LOOKUP, &Dispatch::Lookup},
        {FUSE_FORGET, &Dispatch::Forget},
        {FUSE_BATCH_FORGET, &Dispatch::ForgetMany},
        {FUSE_GETATTR, &Dispatch::GetAttributes},
        {FUSE_SETATTR, &Dispatch::SetAttributes},
        {FUSE_READLINK, &Dispatch::ReadLink},
        {FUSE_SYMLINK, &Dispatch::Symlink},
        {FUSE_MKNOD, &Dispatch::MakeNode},
        {FUSE_MKDIR, &Dispatch::MakeDirectory},
        {FUSE_UNLINK, &Dispatch::Unlink},
        {FUSE_RMDIR, &Dispatch::RemoveDirectory},
        {FUSE_RENAME, &Dispatch::Rename},
        {FUSE_RENAME2, &Dispatch::RenameWithFlags},
        {FUSE_LINK, &Dispatch::Link},
        {FUSE_OPEN, &Dispatch::Open},
        {FUSE_CREATE, &Dispatch::Create},
        {FUSE_READ, &Dispatch::Read},
        {FUSE_WRITE, &Dispatch::Write},
        {FUSE_FLUSH, &Dispatch::Flush},
        {FUSE_FSYNC, &Dispatch::Sync},
        {FUSE_RELEASE, &Dispatch::Release},
        {FUSE_FALLOCATE, &Dispatch::Allocate},
        {FUSE_LSEEK, &Dispatch::Seek},
        {FUSE_STATFS, &Dispatch::Statistics},
        {FUSE_OPENDIR, &Dispatch::OpenDirectory},
        {FUSE_READDIR, &Dispatch::ReadDirectory},
        {FUSE_READDIRPLUS, &Dispatch::ReadDirectoryPlus},
        {FUSE_RELEASEDIR, &Dispatch::ReleaseDirectory},
        {FUSE_FSYNCDIR, &Dispatch::SyncDirectory},
    };
    const auto found = methods.find(opcode);
    return found == methods.end() ? nullptr : found->second;
}

void Dispatch::Handle(const Request &request, Reply &reply)
{
    const Method method = MethodOf(request.Header.opcode);
    if (method != &Dispatch::Forget && method != &Dispatch::ForgetMany)
    {
        m_Known.Note(request.Header.nodeid);
    }
    try
    {
        if (method == nullptr)
        {
            throw Errno(ENOSYS); // extended attributes too: the kernel says EOPNOTSUPP from now on
        }
        (this->*method)(request, reply);
    }
    catch (const Errno &error)
    {
        reply.Fail(error.Number());
    }
    catch (const std::bad_alloc &)
    {
        reply.Fail(ENOMEM);
    }
    catch (const std::exception &error)
    {
        std::cerr << error.what() << std::endl;
        reply.Fail(EIO);
    }
}

} // end namespace bbflow
