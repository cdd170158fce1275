#include "Dispatch.h"
#include "NodeFiles.h"

namespace bbflow
{

namespace
{

timespec Time(const uint64_t seconds, const uint32_t nanoseconds, const bool isNow)
{
    timespec time = {static_cast<time_t>(seconds), static_cast<long>(nanoseconds)};
    if (isNow)
    {
        clock_gettime(CLOCK_REALTIME, &time);
    }
    return time;
}

Change ChangeOf(const fuse_setattr_in &in)
{
    Change change;
    change.Valid = in.valid;
    change.Mode = in.mode;
    change.Uid = in.uid;
    change.Gid = in.gid;
    change.Size = in.size;
    change.Accessed = Time(in.atime, in.atimensec, (in.valid & FATTR_ATIME_NOW) != 0);
    change.Modified = Time(in.mtime, in.mtimensec, (in.valid & FATTR_MTIME_NOW) != 0);
    return change;
}

} // end empty namespace

/** Has the kernel find a file as long as it is about to be told. Whoever reads it from the kernel's
 *  pages would see zeros in the last one, if the file has become longer elsewhere: so bytes that
 *  come from now on are the new ones, and then what the kernel has of the end goes. */
void Dispatch::Announce(const Caller &caller, const uint64_t node, const struct stat &attributes)
{
    if (!S_ISREG(attributes.st_mode))
    {
        return;
    }
    const auto size = static_cast<uint64_t>(attributes.st_size);
    const uint64_t before = m_Known.Announce(node, size);
    if (before != size && m_Backings.IsCached(node))
    {
        m_Files.LookAgain(caller, NodeIds::FileOf(node));
        m_Invalidate(node, static_cast<int64_t>(std::min(before, size)));
    }
    m_Known.Tell(node, size);
}

void Dispatch::GetAttributes(const Request &request, Reply &reply)
{
    const FileId id = request.File();
    const struct stat attributes = m_Files.Get(request.By, id);
    Announce(request.By, request.Header.nodeid, attributes);
    reply.SendStruct(ToKernel(attributes, m_Files.KeptSecs(id)));
}

void Dispatch::SetAttributes(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_setattr_in>();
    if ((in.valid & FATTR_KILL_SUIDGID) != 0 && (in.valid & FATTR_MODE) == 0)
    {
        DropPrivileges(request);
    }
    const struct stat attributes = m_Files.Set(request.By, request.File(), ChangeOf(in));
    if ((in.valid & FATTR_SIZE) != 0)
    {
        m_Known.SetSize(request.Header.nodeid, static_cast<uint64_t>(attributes.st_size));
    }
    Announce(request.By, request.Header.nodeid, attributes);
    reply.SendStruct(ToKernel(attributes, 0.0));
}

/** A write or a new owner takes the set-user-id bit, and the set-group-id bit of a program. */
void Dispatch::DropPrivileges(const Request &request)
{
    const mode_t mode = m_Files.Get(request.By, request.File()).st_mode;
    const mode_t lost = S_ISUID | ((mode & S_IXGRP) != 0 ? S_ISGID : 0u);
    if ((mode & lost) != 0 && S_ISREG(mode))
    {
        Change change;
        change.Valid = FATTR_MODE;
        change.Mode = mode & ~lost;
        const Caller root{0, 0, request.By.Pid, request.By.IsInterrupted};
        m_Files.Set(root, request.File(), change); // the writer may not be the owner
    }
}

void Dispatch::Statistics(const Request &request, Reply &reply)
{
    const struct statvfs found = m_Files.Statistics(request.By);
    fuse_statfs_out out{};
    out.st.blocks = found.f_blocks;
    out.st.bfree = found.f_bfree;
    out.st.bavail = found.f_bavail;
    out.st.files = found.f_files;
    out.st.ffree = found.f_ffree;
    out.st.bsize = static_cast<uint32_t>(found.f_bsize);
    out.st.frsize = static_cast<uint32_t>(found.f_frsize);
    out.st.namelen = 255;
    reply.SendStruct(out);
}

} // end namespace bbflow
