#include "Dispatch.h"
#include "NodeFiles.h"

#include <cstring>

namespace bbflow
{

namespace
{

using Listing = std::vector<DirectoryEntry>;

Listing &ListingOf(const uint64_t handle) { return *reinterpret_cast<Listing *>(handle); }

void Append(std::string &bytes, const void *part, const size_t size)
{
    bytes.append(static_cast<const char *>(part), size);
}

size_t BytesOf(const DirectoryEntry &entry)
{
    return FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + entry.Name.size());
}

/** Returns an entry in the kernel's form. */
std::string Encode(const DirectoryEntry &entry, const uint64_t next)
{
    std::string bytes;
    fuse_dirent header{};
    header.ino = entry.Number;
    header.off = next;
    header.namelen = static_cast<uint32_t>(entry.Name.size());
    header.type = (entry.Kind & S_IFMT) >> 12;
    Append(bytes, &header, FUSE_NAME_OFFSET);
    bytes += entry.Name;
    bytes.resize(BytesOf(entry), '\0');
    return bytes;
}

/** @param head how many bytes stand before an entry
 *  @param encode gives one, and the number of the next, in the kernel's form */
template <class Encoding>
void SendPart(const Request &request, Reply &reply, const size_t head, const Encoding &encode)
{
    const auto &in = request.As<fuse_read_in>();
    const Listing &listing = ListingOf(in.fh);
    std::string bytes;
    for (size_t i = in.offset;
         i < listing.size() && bytes.size() + head + BytesOf(listing[i]) <= in.size; ++i)
    {
        bytes += encode(listing[i], i + 1);
    }
    reply.Send(bytes);
}

DirectoryEntry Dots(const char *name, const FileId id) { return {name, id, S_IFDIR}; }

} // end empty namespace

void Dispatch::OpenDirectory(const Request &request, Reply &reply)
{
    const FileId id = request.Header.nodeid;
    auto listing = std::make_unique<Listing>(Listing{Dots(".", id), Dots("..", id)});
    Listing found = m_Files.List(request.By, id);
    std::move(found.begin(), found.end(), std::back_inserter(*listing));
    fuse_open_out out{};
    // The kernel has it until it releases the handle.
    out.fh = reinterpret_cast<uint64_t>(listing.release());
    ++m_Open;
    reply.SendStruct(out);
}

void Dispatch::ReadDirectory(const Request &request, Reply &reply)
{
    SendPart(request, reply, 0, Encode);
}

void Dispatch::ReadDirectoryPlus(const Request &request, Reply &reply)
{
    SendPart(request, reply, sizeof(fuse_entry_out),
             [&](const DirectoryEntry &entry, const uint64_t next)
             { return EncodeWhole(request.By, request.Header.nodeid, entry, next); });
}

/** Nothing of it may be kept: the kernel may have been told to forget it before it takes it in.
 *  With attributes as they are now: when the directory was opened, files may have been shorter, and
 *  the kernel would take that for news. */
std::string Dispatch::EncodeWhole(const Caller &caller, const FileId parent,
                                  const DirectoryEntry &entry, const uint64_t next)
{
    const bool isDots = entry.Name == "." || entry.Name == "..";
    const std::optional<Entry> known = isDots ? std::nullopt : m_Files.Peek(parent, entry);
    fuse_entry_out out{};
    if (known)
    {
        const uint64_t node = m_Nodes.NodeOf(known->Id);
        m_Known.Look(node);
        Announce(caller, node, known->Attributes);
        out = ToKernel(*known, node, 0.0, 0.0);
        out.generation = m_Nodes.GenerationOf(known->Id);
    }
    std::string bytes;
    Append(bytes, &out, sizeof(out));
    return bytes += Encode(entry, next);
}

void Dispatch::ReleaseDirectory(const Request &request, Reply &reply)
{
    const std::unique_ptr<Listing> listing(&ListingOf(request.As<fuse_release_in>().fh));
    --m_Open;
    reply.Send();
}

void Dispatch::SyncDirectory(const Request &, Reply &reply) { reply.Send(); }

} // end namespace bbflow
