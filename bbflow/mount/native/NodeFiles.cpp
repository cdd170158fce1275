#include "NodeFiles.h"

#include "Errno.h"
#include "FuseKernel.h"
#include "Utf8.h"

#include <fcntl.h>
#include <fstream>
#include <sstream>

namespace bbflow
{

namespace
{

constexpr int64_t ListLimit = 4096;

/** The kernel sends the first group only; the others stand in /proc. */
Value::Array GroupsOf(const uint32_t pid)
{
    Value::Array groups;
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);)
    {
        if (line.rfind("Groups:", 0) == 0)
        {
            std::istringstream numbers(line.substr(7));
            for (uint64_t group = 0; numbers >> group;)
            {
                groups.emplace_back(group);
            }
            break;
        }
    }
    return groups;
}

/** Adds to a request about names who makes it: `uid`, `gid`, and the `groups` of the process. */
Value::Map By(const Caller &caller, Value::Map request)
{
    request.emplace_back("uid", uint64_t{caller.Uid});
    request.emplace_back("gid", uint64_t{caller.Gid});
    if (caller.Uid != 0) // root may anyway
    {
        request.emplace_back("groups", GroupsOf(caller.Pid));
    }
    return request;
}

int64_t Nanoseconds(const timespec &time)
{
    return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

Attr AttrIn(const Value &reply)
{
    const Value *attr = reply.Find("attr");
    if (attr == nullptr)
    {
        throw std::runtime_error("bbflow: a master's reply lacks attr");
    }
    return AttrFrom(*attr);
}

const char *RenameFlags(const uint32_t flags)
{
    switch (flags)
    {
    case 0:
        return "";
    case RENAME_NOREPLACE:
        return "noreplace";
    case RENAME_EXCHANGE:
        return "exchange";
    default:
        throw Errno(EINVAL);
    }
}

/** @throws Errno if no object could have the name */
const std::string &Fit(const std::string &name)
{
    if (!IsUtf8(name))
    {
        throw Errno(EILSEQ);
    }
    return name;
}

bool IsForWriting(const uint32_t flags) { return (flags & O_ACCMODE) != O_RDONLY; }

} // end empty namespace

NodeFiles::NodeFiles(const std::string &contact, const double patience)
: m_Contact(contact), m_Patience(patience)
{
    VolumeOf(FUSE_ROOT_ID);
}

Volume &NodeFiles::VolumeOf(const FileId id)
{
    Place &place = PlaceOf(MasterOf(id));
    if (Volume *known = place.Known.load())
    {
        return *known;
    }
    // Not with m_Mutex: it waits for its master, and calls for others continue.
    const std::lock_guard<std::mutex> lock(place.Making);
    if (!place.Made)
    {
        place.Made = std::make_unique<Volume>(m_Contact, MasterOf(id), m_Patience, m_Kernel);
        place.Known = place.Made.get();
    }
    return *place.Made;
}

NodeFiles::Place &NodeFiles::PlaceOf(const uint64_t master)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    return m_Volumes[master];
}

/** What a master has told of, as programs here see it. */
Entry NodeFiles::Shown(const Caller &caller, const Attr &attr)
{
    Note(attr);
    const bool isFile = S_ISREG(attr.File.Attributes.st_mode);
    return isFile ? Entry{attr.File.Id, Get(caller, attr.File.Id)} : attr.File;
}

Entry NodeFiles::Lookup(const Caller &caller, const FileId parent, const std::string &name)
{
    Volume &volume = VolumeOf(parent);
    if (const std::optional<Attr> kept = volume.Kept().Find(parent, name))
    {
        return Shown(caller, *kept);
    }
    if (volume.Kept().HasNot(parent, name))
    {
        throw Errno(ENOENT);
    }
    const Value reply = volume.Link().Ask(
        caller, By(caller, {{"op", "lookup"}, {"parent", parent}, {"name", Fit(name)}}));
    const Attr attr = AttrIn(reply);
    volume.Kept().Keep(parent, name, attr, reply.UnsignedAt("seq"));
    return Shown(caller, attr);
}

void NodeFiles::LookAgain(const Caller &caller, const FileId id)
{
    if (const std::shared_ptr<OpenInode> state = VolumeOf(id).FindState(id))
    {
        state->LookAgain(caller);
    }
}

struct stat NodeFiles::Get(const Caller &caller, const FileId id)
{
    Volume &volume = VolumeOf(id);
    const Unwritten unwritten = volume.UnwrittenOf(id);
    const std::optional<Attr> kept = volume.Kept().Find(id);
    struct stat attributes = (kept ? *kept : AskForAttr(caller, id)).File.Attributes;
    unwritten.Show(attributes);
    return attributes;
}

Attr NodeFiles::AskForAttr(const Caller &caller, const FileId id)
{
    Volume &volume = VolumeOf(id);
    try
    {
        const Value reply = volume.Link().Ask(caller, {{"op", "stat"}, {"ino", id}});
        const Attr attr = AttrIn(reply);
        volume.Kept().Keep(attr, reply.UnsignedAt("seq"));
        Note(attr);
        return attr;
    }
    catch (const Errno &error)
    {
        const std::optional<struct stat> removed = m_Seen.Removed(id);
        if (error.Number() != ESTALE || !removed)
        {
            throw;
        }
        return {{id, *removed}, 0};
    }
}

/** What a master has told of, if that is a directory. */
void NodeFiles::Note(const Attr &attr)
{
    if (S_ISDIR(attr.File.Attributes.st_mode))
    {
        m_Seen.Note(attr.File.Id, attr.File.Attributes);
    }
}

std::optional<Entry> NodeFiles::Peek(const FileId parent, const DirectoryEntry &entry)
{
    Volume &volume = VolumeOf(parent);
    const Unwritten unwritten = volume.UnwrittenOf(entry.Number);
    const std::optional<Attr> attr = volume.Kept().Find(entry.Number);
    if (!attr)
    {
        return std::nullopt;
    }
    Entry known = attr->File;
    unwritten.Show(known.Attributes);
    return known;
}

struct stat NodeFiles::Set(const Caller &caller, const FileId id, const Change &change)
{
    Volume &volume = VolumeOf(id);
    Value::Map request = By(caller, {{"op", "setattr"}, {"ino", id}});
    const size_t empty = request.size();
    const std::shared_ptr<OpenInode> state = volume.FindState(id);
    const auto add = [&](const uint32_t flag, const char *key, const Value &value)
    {
        if ((change.Valid & flag) != 0)
        {
            request.emplace_back(key, value);
        }
    };
    const bool hasSize = (change.Valid & FATTR_SIZE) != 0;
    if (!(hasSize && state && state->TryTruncate(caller, change.Size)))
    {
        add(FATTR_SIZE, "size", change.Size);
    }
    if (state && (change.Valid & FATTR_MTIME) != 0)
    {
        state->Commit(caller, CommitFor::Change); // else its time would count later
    }
    add(FATTR_MODE, "mode", uint64_t{change.Mode & 07777});
    add(FATTR_UID, "owner", uint64_t{change.Uid});
    add(FATTR_GID, "group", uint64_t{change.Gid});
    add(FATTR_ATIME, "atime_ns", Nanoseconds(change.Accessed));
    add(FATTR_MTIME, "mtime_ns", Nanoseconds(change.Modified));
    if (request.size() == empty)
    {
        return Get(caller, id);
    }
    const Value reply = volume.Link().Ask(caller, request);
    const Attr attr = AttrIn(reply);
    volume.Kept().Keep(attr, reply.UnsignedAt("seq"));
    return Shown(caller, attr).Attributes;
}

/** Makes something with a name, and keeps what the master says of it. */
Entry NodeFiles::AskForEntry(const Caller &caller, const FileId parent, const std::string &name,
                             Value::Map request)
{
    Volume &volume = VolumeOf(parent);
    request.emplace_back("parent", parent);
    request.emplace_back("name", Fit(name));
    const Value reply = volume.Link().Ask(caller, By(caller, std::move(request)));
    const Attr attr = AttrIn(reply);
    const bool isDirectory = S_ISDIR(attr.File.Attributes.st_mode);
    Note(attr);
    volume.Kept().Touch(parent, isDirectory ? 1 : 0);
    volume.Kept().Keep(parent, name, attr, reply.UnsignedAt("seq"));
    if (isDirectory)
    {
        volume.Kept().KeepList(attr.File.Id, {}, reply.UnsignedAt("seq"));
    }
    return {attr.File.Id, attr.File.Attributes, true};
}

Entry NodeFiles::MakeDirectory(const Caller &caller, const FileId parent, const std::string &name,
                               const uint32_t mode)
{
    return AskForEntry(caller, parent, name,
                       {{"op", "mkdir"}, {"mode", uint64_t{mode & 07777}}, {"parents", false}});
}

Entry NodeFiles::MakeNode(const Caller &caller, const FileId parent, const std::string &name,
                          const uint32_t mode, uint32_t)
{
    if (!S_ISREG(mode))
    {
        throw Errno(EPERM); // devices, sockets and named pipes
    }
    Entry made;
    Create(caller, parent, name, mode, O_WRONLY | O_EXCL, made);
    return made;
}

Entry NodeFiles::MakeSymlink(const Caller &caller, const FileId parent, const std::string &name,
                             const std::string &target)
{
    return AskForEntry(caller, parent, name, {{"op", "symlink"}, {"target", Fit(target)}});
}

Entry NodeFiles::Link(const Caller &, FileId, FileId, const std::string &)
{
    throw Errno(EPERM); // an object has one name
}

std::string NodeFiles::ReadLink(const Caller &caller, const FileId id)
{
    return VolumeOf(id).Link().Ask(caller, {{"op", "readlink"}, {"ino", id}}).StringAt("target");
}

void NodeFiles::Remove(const Caller &caller, const std::string &operation, const FileId parent,
                       const std::string &name)
{
    Volume &volume = VolumeOf(parent);
    const std::optional<Attr> kept = volume.Kept().Find(parent, name);
    const Value reply = volume.Link().Ask(
        caller, By(caller, {{"op", operation}, {"parent", parent}, {"name", Fit(name)}}));
    if (kept)
    {
        volume.Lingering().Close(kept->File.Id);
    }
    volume.Kept().Drop(parent, name, reply.UnsignedAt("seq"));
    volume.Kept().Touch(parent, operation == "rmdir" ? -1 : 0);
}

void NodeFiles::Unlink(const Caller &caller, const FileId parent, const std::string &name)
{
    Remove(caller, "unlink", parent, name);
}

void NodeFiles::RemoveDirectory(const Caller &caller, const FileId parent, const std::string &name)
{
    Remove(caller, "rmdir", parent, name);
}

void NodeFiles::Rename(const Caller &caller, const FileId from, const std::string &name,
                       const FileId to, const std::string &newName, const uint32_t flags)
{
    if (MasterOf(from) != MasterOf(to))
    {
        throw Errno(EXDEV);
    }
    Volume &volume = VolumeOf(from);
    const Value reply = volume.Link().Ask(caller, By(caller, {{"op", "rename"},
                                                              {"parent", from},
                                                              {"name", Fit(name)},
                                                              {"to_parent", to},
                                                              {"to_name", Fit(newName)},
                                                              {"flags", RenameFlags(flags)}}));
    const Attr attr = AttrIn(reply);
    const uint64_t seq = reply.UnsignedAt("seq");
    volume.Kept().Drop(from, name, seq);
    volume.Kept().Drop(to, newName, seq);
    if (S_ISDIR(attr.File.Attributes.st_mode) || flags == RENAME_EXCHANGE)
    {
        volume.Kept().DropDirectory(from, seq);
        volume.Kept().DropDirectory(to, seq);
        return;
    }
    volume.Kept().Keep(to, newName, attr, seq);
    volume.Kept().Touch(from, 0);
    volume.Kept().Touch(to, 0);
}

std::unique_ptr<NodeFile> NodeFiles::Open(const Caller &caller, const FileId id,
                                          const uint32_t flags)
{
    Volume &volume = VolumeOf(id);
    const std::shared_ptr<OpenInode> state = volume.StateOf(id);
    if (IsForWriting(flags))
    {
        const bool isTruncated = (flags & O_TRUNC) != 0;
        if (const std::optional<int64_t> shared = state->ShareWriting(caller))
        {
            auto file = std::make_unique<NodeFile>(volume, id, state, *shared, true);
            if (isTruncated)
            {
                state->TryTruncate(caller, 0);
            }
            return file;
        }
        return AskToWrite(caller, id, state, isTruncated);
    }
    state->WaitForClosing(caller);
    const std::optional<Attr> kept = volume.Kept().Find(id);
    const std::optional<int64_t> shared =
        kept ? state->ShareReading(caller, *kept) : std::optional<int64_t>();
    if (shared)
    {
        return std::make_unique<NodeFile>(volume, id, state, *shared, false);
    }
    return AskToOpen(caller, id, state, false, false);
}

/** As AskToOpen; others of this mount wait for what comes of it. */
std::unique_ptr<NodeFile> NodeFiles::AskToWrite(const Caller &caller, const FileId id,
                                                const std::shared_ptr<OpenInode> &state,
                                                const bool isTruncated)
{
    try
    {
        std::unique_ptr<NodeFile> file = AskToOpen(caller, id, state, true, isTruncated);
        state->EndAsking(0);
        return file;
    }
    catch (const Errno &error)
    {
        state->EndAsking(error.Number());
        throw;
    }
    catch (...)
    {
        state->EndAsking(EIO);
        throw;
    }
}

std::unique_ptr<NodeFile> NodeFiles::AskToOpen(const Caller &caller, const FileId id,
                                               const std::shared_ptr<OpenInode> &state,
                                               const bool isForWriting, const bool isTruncated)
{
    Volume &volume = VolumeOf(id);
    const Value reply =
        volume.Link().Ask(caller, By(caller, {{"op", "open"},
                                              {"ino", id},
                                              {"write", isForWriting},
                                              {"truncate", isTruncated},
                                              {"pid", static_cast<uint64_t>(caller.Pid)}}));
    const int64_t handle = state->TakeOpened(caller, reply, isForWriting, isTruncated);
    auto file = std::make_unique<NodeFile>(volume, id, state, handle, isForWriting);
    if (state->IsCold(caller))
    {
        volume.Lingering().CloseAll(); // what comes needs room
    }
    volume.Kept().Keep(AttrIn(reply), reply.UnsignedAt("seq"));
    return file;
}

std::unique_ptr<NodeFile> NodeFiles::Create(const Caller &caller, const FileId parent,
                                            const std::string &name, const uint32_t mode,
                                            const uint32_t flags, Entry &made)
{
    Volume &volume = VolumeOf(parent);
    const bool isTruncated = (flags & O_TRUNC) != 0;
    const Value reply =
        volume.Link().Ask(caller, By(caller, {{"op", "create"},
                                              {"parent", parent},
                                              {"name", Fit(name)},
                                              {"mode", uint64_t{mode & 07777}},
                                              {"exclusive", (flags & O_EXCL) != 0},
                                              {"truncate", isTruncated},
                                              {"pid", static_cast<uint64_t>(caller.Pid)}}));
    const Attr attr = AttrIn(reply);
    const std::shared_ptr<OpenInode> state = volume.StateOf(attr.File.Id);
    const bool isEmptied = isTruncated && !reply.BoolAt("created");
    const int64_t handle = state->TakeOpened(caller, reply, true, isEmptied);
    auto file = std::make_unique<NodeFile>(volume, attr.File.Id, state, handle, true);
    volume.Kept().Touch(parent, 0);
    volume.Kept().Keep(parent, name, attr, reply.UnsignedAt("seq"));
    made = Shown(caller, attr);
    made.IsNew = reply.BoolAt("created");
    return file;
}

std::vector<DirectoryEntry> NodeFiles::List(const Caller &caller, const FileId id)
{
    try
    {
        return AskForList(caller, id);
    }
    catch (const Errno &error)
    {
        if (error.Number() != ESTALE || !m_Seen.Removed(id))
        {
            throw;
        }
        return {};
    }
}

std::vector<DirectoryEntry> NodeFiles::AskForList(const Caller &caller, const FileId id)
{
    Volume &volume = VolumeOf(id);
    std::vector<DirectoryEntry> entries;
    std::vector<std::string> names;
    uint64_t seq = UINT64_MAX;
    for (bool hasMore = true; hasMore;)
    {
        const Value reply = volume.Link().Ask(
            caller, By(caller, {{"op", "list"},
                                {"ino", id},
                                {"after", names.empty() ? std::string() : names.back()},
                                {"limit", ListLimit}}));
        // As old as its oldest part: a name that was made since would be taken for missing.
        seq = std::min(seq, reply.UnsignedAt("seq"));
        for (const Value &item : reply.ArrayAt("entries"))
        {
            const Attr attr = AttrFrom(item.Items().at(1));
            names.push_back(item.Items().at(0).Text());
            entries.push_back({names.back(), attr.File.Id, attr.File.Attributes.st_mode});
            volume.Kept().Keep(id, names.back(), attr, reply.UnsignedAt("seq"));
        }
        hasMore = reply.BoolAt("more");
    }
    volume.Kept().KeepList(id, names, seq);
    return entries;
}

struct statvfs NodeFiles::Statistics(const Caller &caller)
{
    const Value reply = VolumeOf(FUSE_ROOT_ID).Link().Ask(caller, {{"op", "statfs"}});
    struct statvfs found = {};
    found.f_bsize = found.f_frsize = 4096;
    found.f_blocks = reply.UnsignedAt("capacity") / 4096;
    found.f_bfree = found.f_bavail = reply.UnsignedAt("free") / 4096;
    found.f_files = reply.UnsignedAt("files");
    found.f_ffree = found.f_favail = UINT32_MAX;
    return found;
}

} // end namespace bbflow
