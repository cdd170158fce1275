#include "Dispatch.h"

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

/** Gives an entry in the kernel's form, with its whole attributes in front if these are asked for.
 */
std::string Encode(const DirectoryEntry &entry, const uint64_t next, const bool withAttributes)
{
    std::string bytes;
    if (withAttributes)
    {
        const fuse_entry_out out =
            entry.IsKnown ? ToKernel(entry.File, 0.0) : fuse_entry_out{}; // 0: it must look it up
        Append(bytes, &out, sizeof(out));
    }
    fuse_dirent header{};
    header.ino = entry.File.Attributes.st_ino;
    header.off = next;
    header.namelen = static_cast<uint32_t>(entry.Name.size());
    header.type = (entry.File.Attributes.st_mode & S_IFMT) >> 12;
    Append(bytes, &header, FUSE_NAME_OFFSET);
    bytes += entry.Name;
    bytes.resize(FUSE_DIRENT_ALIGN(bytes.size()), '\0');
    return bytes;
}

void SendPart(const Request &request, const bool withAttributes, Reply &reply)
{
    const auto &in = request.As<fuse_read_in>();
    const Listing &listing = ListingOf(in.fh);
    std::string bytes;
    for (size_t i = in.offset; i < listing.size(); ++i)
    {
        const std::string one = Encode(listing[i], i + 1, withAttributes);
        if (bytes.size() + one.size() > in.size)
        {
            break;
        }
        bytes += one;
    }
    reply.Send(bytes);
}

DirectoryEntry Dots(const char *name, const FileId id)
{
    DirectoryEntry entry;
    entry.Name = name;
    entry.File.Attributes.st_ino = id;
    entry.File.Attributes.st_mode = S_IFDIR;
    return entry;
}

} // end empty namespace

void Dispatch::OpenDirectory(const Request &request, Reply &reply)
{
    const FileId id = request.Header.nodeid;
    auto listing = std::make_unique<Listing>(Listing{Dots(".", id), Dots("..", id)});
    Listing found = m_Files.List(request.By, id);
    std::move(found.begin(), found.end(), std::back_inserter(*listing));
    fuse_open_out out{};
    out.fh = reinterpret_cast<uint64_t>(listing.release());
    ++m_Open;
    reply.SendStruct(out);
}

void Dispatch::ReadDirectory(const Request &request, Reply &reply)
{
    SendPart(request, false, reply);
}

void Dispatch::ReadDirectoryPlus(const Request &request, Reply &reply)
{
    SendPart(request, true, reply);
}

void Dispatch::ReleaseDirectory(const Request &request, Reply &reply)
{
    const std::unique_ptr<Listing> listing(&ListingOf(request.As<fuse_release_in>().fh));
    --m_Open;
    reply.Send();
}

void Dispatch::SyncDirectory(const Request &, Reply &reply) { reply.Send(); }

} // end namespace bbflow
