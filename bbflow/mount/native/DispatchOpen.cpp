#include "Dispatch.h"
#include "NodeFiles.h"

#include <algorithm>
#include <fcntl.h>
#include <optional>

namespace bbflow
{

namespace
{

NodeFile &FileOf(const uint64_t handle) { return *reinterpret_cast<NodeFile *>(handle); }

/** Keeps a file from being opened by a backing file. */
class Unbacked
{
public:
    Unbacked(Backings &backings, const uint64_t node) : m_Backings(backings), m_Node(node) {}
    ~Unbacked() { m_Backings.Close(m_Node); }
    Unbacked(const Unbacked &) = delete;
    Unbacked &operator=(const Unbacked &) = delete;

private:
    Backings &m_Backings;
    const uint64_t m_Node;
};

/** Who appends does so where this program says, not where the kernel would put it in its pages. */
bool MayWriteDirectly(const Caller &caller, const uint32_t flags, const NodeFile &file)
{
    const uint32_t access = flags & O_ACCMODE;
    return (access == O_WRONLY && file.IsWrittenHere(caller)) ||
           (access != O_RDONLY && (flags & O_APPEND) != 0);
}

} // end empty namespace

/** Sees to it that the kernel asks for a file's size if it has another one than who opens it gets.
 *  @return whether it may take the file for longer all the same, until it has asked */
bool Dispatch::TakeSize(const Caller &caller, const uint64_t node, const uint32_t flags,
                        const NodeFile &file)
{
    if ((flags & O_TRUNC) != 0)
    {
        m_Known.SetSize(node, 0);
        return false;
    }
    const uint64_t size = file.Size(caller);
    const bool mayBeLonger = m_Known.MayBeLonger(node, size);
    if (mayBeLonger || m_Known.HasOtherSize(node, size))
    {
        m_Invalidate(node, -1);
    }
    return mayBeLonger;
}

/** How the kernel is to read and write a file that counts as open. */
uint32_t Dispatch::FlagsFor(const Caller &caller, const uint64_t node, const uint32_t flags,
                            const NodeFile &file, const Passage &passage)
{
    const bool mayBeLonger = TakeSize(caller, node, flags, file); // only now: see Announce
    if (passage.Backing > 0)
    {
        return FOPEN_PASSTHROUGH | (passage.IsAsked ? FOPEN_DIRECT_IO : 0);
    }
    if (mayBeLonger || (m_HasDirectWrites && MayWriteDirectly(caller, flags, file)))
    {
        return FOPEN_DIRECT_IO;
    }
    return file.MayKeepCache(caller) ? FOPEN_KEEP_CACHE : 0;
}

/** @param flags of open(2) */
fuse_open_out Dispatch::Opened(const Caller &caller, const uint64_t node, const uint32_t flags,
                               std::unique_ptr<NodeFile> file)
{
    fuse_open_out out{};
    const bool isRead = (flags & O_ACCMODE) == O_RDONLY;
    out.open_flags = isRead ? FOPEN_NOFLUSH : 0; // a close(2) of it changes nothing
    const Passage passage = m_Backings.Open(node, file->Backing(caller));
    try
    {
        out.open_flags |= FlagsFor(caller, node, flags, *file, passage);
    }
    catch (...)
    {
        m_Backings.Close(node);
        throw;
    }
    if (passage.Backing > 0)
    {
        SetBackingId(out, passage.Backing);
    }
    file->IsDirect = (out.open_flags & FOPEN_DIRECT_IO) != 0;
    out.fh = reinterpret_cast<uint64_t>(file.release());
    ++m_Open;
    return out;
}

void Dispatch::Open(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_open_in>();
    if ((in.open_flags & FUSE_OPEN_KILL_SUIDGID) != 0)
    {
        DropPrivileges(request);
    }
    const uint64_t node = request.Header.nodeid;
    std::optional<Unbacked> unbacked;
    if ((in.flags & O_ACCMODE) == O_RDWR)
    {
        if (!m_Backings.TryOpenUnbacked(node))
        {
            const auto isBacked = [this](const uint64_t each) { return m_Backings.IsBacked(each); };
            if (isBacked(m_Nodes.NodeOf(request.File())) &&
                !m_Nodes.TryRenew(request.File(), isBacked))
            {
                throw Errno(EBUSY);
            }
            throw Errno(ESTALE); // the kernel looks its name up again, and opens the new number
        }
        unbacked.emplace(m_Backings, node);
    }
    std::unique_ptr<NodeFile> file = m_Files.Open(request.By, request.File(), in.flags);
    reply.SendStruct(Opened(request.By, node, in.flags, std::move(file)));
}

void Dispatch::Create(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_create_in>();
    const std::string name = request.TextAt(sizeof(in));
    Entry made;
    std::unique_ptr<NodeFile> file =
        m_Files.Create(request.By, request.Header.nodeid, name, in.mode, in.flags, made);
    const fuse_entry_out entry = Found(request.By, made);
    const fuse_open_out open = Opened(request.By, entry.nodeid, in.flags, std::move(file));
    reply.Send({reinterpret_cast<const char *>(&entry), sizeof(entry)},
               {reinterpret_cast<const char *>(&open), sizeof(open)});
}

void Dispatch::Read(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_read_in>();
    const size_t most = std::min(in.size, MostBytes);
    char *room = reply.Room(most);
    NodeFile &file = FileOf(in.fh);
    const auto isUnsure = [&](const size_t n)
    {
        return n < most && !file.IsDirect && (in.flags & O_DIRECT) == 0 &&
               !file.IsWritten(request.By) &&
               m_Known.MayBeLonger(request.Header.nodeid, in.offset + n);
    };
    size_t n = file.Read(request.By, room, most, in.offset);
    if (isUnsure(n))
    {
        m_Files.LookAgain(request.By, request.File());
        n = file.Read(request.By, room, most, in.offset);
        if (isUnsure(n))
        {
            throw Errno(EIO); // it got shorter while it was open: the kernel would add zeros
        }
    }
    reply.Send({room, n});
}

void Dispatch::Write(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_write_in>();
    if ((in.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0)
    {
        DropPrivileges(request);
    }
    const std::string_view bytes = request.Body().substr(sizeof(in), in.size);
    m_Known.Extend(request.Header.nodeid, in.offset + bytes.size());
    NodeFile &file = FileOf(in.fh);
    const uint64_t offset =
        (in.flags & O_APPEND) != 0 ? file.EndFor(request.By, in.offset) : in.offset;
    size_t done = file.Write(request.By, bytes, offset);
    while (done < bytes.size() && (in.write_flags & FUSE_WRITE_CACHE) != 0)
    {
        // Of mapped pages the kernel takes all for written unless it is told of an error.
        done += file.Write(request.By, bytes.substr(done), offset + done);
    }
    if (offset != in.offset && file.IsDirect)
    {
        // What the kernel takes for the file's end may have been it before another mount wrote:
        // then pages from there on lack what that has written.
        m_Invalidate(request.Header.nodeid, static_cast<int64_t>(std::min(offset, in.offset)));
    }
    fuse_write_out out{};
    out.size = static_cast<uint32_t>(done);
    reply.SendStruct(out);
}

void Dispatch::Flush(const Request &request, Reply &reply)
{
    FileOf(request.As<fuse_flush_in>().fh).Commit(request.By, CommitFor::Close);
    reply.Send();
}

void Dispatch::Sync(const Request &request, Reply &reply)
{
    FileOf(request.As<fuse_fsync_in>().fh).Commit(request.By, CommitFor::Sync);
    reply.Send();
}

void Dispatch::Release(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_release_in>();
    const std::unique_ptr<NodeFile> file(&FileOf(in.fh));
    m_Backings.Close(request.Header.nodeid);
    --m_Open;
    reply.Send();
}

void Dispatch::Allocate(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_fallocate_in>();
    m_Known.Extend(request.Header.nodeid, in.offset + in.length);
    FileOf(in.fh).Allocate(request.By, static_cast<int>(in.mode), in.offset, in.length);
    reply.Send();
}

void Dispatch::Seek(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_lseek_in>();
    fuse_lseek_out out{};
    out.offset = FileOf(in.fh).Seek(request.By, in.offset, static_cast<int>(in.whence));
    reply.SendStruct(out);
}

} // end namespace bbflow
