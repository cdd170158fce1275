#include "KeptMetadata.h"

#include <stdexcept>

namespace bbflow
{

namespace
{

constexpr size_t MostFiles = 200000;
constexpr std::chrono::seconds DirectoryTime{1};
constexpr int64_t Second = 1000000000;

timespec TimeAt(const Value &attr, const char *key)
{
    const int64_t nanoseconds = attr.IntegerAt(key);
    const int64_t rest = (nanoseconds % Second + Second) % Second;
    return {static_cast<time_t>((nanoseconds - rest) / Second), static_cast<long>(rest)};
}

mode_t TypeOf(const std::string &kind)
{
    if (kind == "f")
    {
        return S_IFREG;
    }
    if (kind == "d")
    {
        return S_IFDIR;
    }
    if (kind == "l")
    {
        return S_IFLNK;
    }
    throw std::runtime_error("bbflow: a master speaks of a file of the unknown kind " + kind);
}

} // end empty namespace

using Lock = std::lock_guard<std::mutex>;

Attr AttrFrom(const Value &attr)
{
    Attr made;
    struct stat &stat = made.File.Attributes;
    const Value *master = attr.Find("master");
    made.File.Id = master != nullptr && !master->IsNil() ? RootOf(master->AsUnsigned())
                                                         : attr.UnsignedAt("ino");
    made.Version = attr.UnsignedAt("version");
    stat.st_ino = made.File.Id;
    stat.st_mode = TypeOf(attr.StringAt("kind")) | static_cast<mode_t>(attr.UnsignedAt("mode"));
    stat.st_uid = static_cast<uid_t>(attr.UnsignedAt("uid"));
    stat.st_gid = static_cast<gid_t>(attr.UnsignedAt("gid"));
    stat.st_nlink = attr.UnsignedAt("nlink");
    stat.st_size = attr.IntegerAt("size");
    stat.st_blocks = (stat.st_size + 511) / 512;
    stat.st_blksize = 1 << 20;
    stat.st_atim = TimeAt(attr, "atime_ns");
    stat.st_mtim = TimeAt(attr, "mtime_ns");
    stat.st_ctim = TimeAt(attr, "ctime_ns");
    return made;
}

Forgotten ForgottenFrom(const Value &message)
{
    if (message.StringAt("op") != "forget")
    {
        throw std::runtime_error("bbflow: a master sends something that isn't known: " +
                                 message.StringAt("op"));
    }
    Forgotten what;
    what.Seq = message.UnsignedAt("seq");
    for (const Value &id : message.ArrayAt("inos"))
    {
        what.Files.push_back(id.AsUnsigned());
    }
    for (const Value &name : message.ArrayAt("names"))
    {
        what.Names.emplace_back(name.Items().at(0).AsUnsigned(), name.Items().at(1).Text());
        what.Files.push_back(name.Items().at(2).AsUnsigned());
    }
    for (const Value &id : message.ArrayAt("directories"))
    {
        what.Directories.push_back(id.AsUnsigned());
    }
    return what;
}

void KeptMetadata::SetLease(const Time until)
{
    const Lock lock(m_Mutex);
    m_Lease = std::max(m_Lease, until);
}

KeptMetadata::Known *KeptMetadata::FindLocked(const FileId id)
{
    const auto found = m_Files.find(id);
    const Time now = std::chrono::steady_clock::now();
    return found == m_Files.end() || found->second.Until < now || m_Lease < now ? nullptr
                                                                                : &found->second;
}

std::optional<Attr> KeptMetadata::Find(const FileId id)
{
    const Lock lock(m_Mutex);
    const Known *known = FindLocked(id);
    return known != nullptr ? std::optional(known->File) : std::nullopt;
}

std::optional<Attr> KeptMetadata::Find(const FileId parent, const std::string &name)
{
    const Lock lock(m_Mutex);
    const auto directory = m_Directories.find(parent);
    if (directory == m_Directories.end())
    {
        return std::nullopt;
    }
    const auto found = directory->second.Names.find(name);
    if (found == directory->second.Names.end())
    {
        return std::nullopt;
    }
    const Known *known = FindLocked(found->second.Id);
    const bool counts = known != nullptr && known->Stamp == found->second.Stamp;
    return counts ? std::optional(known->File) : std::nullopt;
}

bool KeptMetadata::HasNot(const FileId parent, const std::string &name)
{
    const Lock lock(m_Mutex);
    const auto found = m_Directories.find(parent);
    return found != m_Directories.end() && found->second.All &&
           m_Lease >= std::chrono::steady_clock::now() && found->second.All->count(name) == 0;
}

/** Whether a reply isn't older than what this client had to let go of; with m_Mutex locked. */
bool KeptMetadata::MayKeep(const uint64_t seq)
{
    m_Newest = std::max(m_Newest, seq);
    if (m_Files.size() >= MostFiles)
    {
        m_Files.clear();
        m_Directories.clear();
        // With what was kept its age is forgotten: a late reply could be older than that.
        m_Oldest = m_Newest;
    }
    return seq >= m_Oldest;
}

KeptMetadata::Known &KeptMetadata::KeepLocked(const Attr &attr, const uint64_t seq)
{
    const auto [place, isNew] = m_Files.try_emplace(attr.File.Id);
    Known &known = place->second;
    if (isNew)
    {
        known.Stamp = ++m_Stamps;
    }
    if (seq >= known.Seq)
    {
        const bool isDirectory = S_ISDIR(attr.File.Attributes.st_mode);
        known.File = attr;
        known.Until = isDirectory ? std::chrono::steady_clock::now() + DirectoryTime : Time::max();
        known.Seq = seq;
    }
    return known;
}

/** A reply that may not be kept says all the same that what is known of a file from before is over:
 *  another call's end came between, and this one may have changed the file. */
void KeptMetadata::DropOlder(const FileId id, const uint64_t seq)
{
    const auto found = m_Files.find(id);
    if (found != m_Files.end() && found->second.Seq < seq)
    {
        m_Files.erase(found);
    }
}

void KeptMetadata::Keep(const Attr &attr, const uint64_t seq)
{
    const Lock lock(m_Mutex);
    if (MayKeep(seq))
    {
        KeepLocked(attr, seq);
    }
    else
    {
        DropOlder(attr.File.Id, seq);
    }
}

void KeptMetadata::Keep(const FileId parent, const std::string &name, const Attr &attr,
                        const uint64_t seq)
{
    const Lock lock(m_Mutex);
    if (!MayKeep(seq))
    {
        DropOlder(attr.File.Id, seq);
        m_Directories.erase(parent);
        return;
    }
    const Known &known = KeepLocked(attr, seq);
    Directory &directory = m_Directories[parent];
    directory.Names[name] = {attr.File.Id, known.Stamp};
    directory.Seq = std::max(directory.Seq, seq);
    if (directory.All)
    {
        directory.All->insert(name);
    }
}

void KeptMetadata::KeepList(const FileId directory, const std::vector<std::string> &names,
                            const uint64_t seq)
{
    const Lock lock(m_Mutex);
    if (MayKeep(seq) && seq >= m_Directories[directory].Seq)
    {
        m_Directories[directory].All.emplace(names.begin(), names.end());
        m_Directories[directory].Seq = seq;
    }
}

void KeptMetadata::Drop(const FileId parent, const std::string &name, const uint64_t seq)
{
    const Lock lock(m_Mutex);
    m_Oldest = std::max(m_Oldest, seq); // a lookup from before still had it
    const auto directory = m_Directories.find(parent);
    if (directory == m_Directories.end())
    {
        return;
    }
    if (const auto found = directory->second.Names.find(name);
        found != directory->second.Names.end())
    {
        m_Files.erase(found->second.Id);
        directory->second.Names.erase(found);
    }
    if (directory->second.Seq > seq)
    {
        directory->second.All.reset(); // it may be there again
    }
    else if (directory->second.All)
    {
        directory->second.All->erase(name);
    }
}

void KeptMetadata::DropDirectory(const FileId directory, const uint64_t seq)
{
    const Lock lock(m_Mutex);
    m_Oldest = std::max(m_Oldest, seq);
    m_Files.erase(directory);
    m_Directories.erase(directory);
}

void KeptMetadata::Touch(const FileId directory, const int directories)
{
    const Lock lock(m_Mutex);
    if (const auto found = m_Files.find(directory); found != m_Files.end())
    {
        struct stat &attributes = found->second.File.File.Attributes;
        clock_gettime(CLOCK_REALTIME, &attributes.st_mtim);
        attributes.st_ctim = attributes.st_mtim;
        attributes.st_nlink += static_cast<nlink_t>(directories);
    }
}

void KeptMetadata::Forget(const Forgotten &what)
{
    const Lock lock(m_Mutex);
    m_Oldest = std::max(m_Oldest, what.Seq);
    for (const FileId id : what.Files)
    {
        m_Files.erase(id);
    }
    for (const auto &[parent, name] : what.Names)
    {
        if (const auto found = m_Directories.find(parent); found != m_Directories.end())
        {
            found->second.Names.erase(name);
        }
    }
    for (const FileId id : what.Directories)
    {
        if (const auto found = m_Directories.find(id); found != m_Directories.end())
        {
            found->second.All.reset();
        }
    }
}

void KeptMetadata::Restart(const uint64_t seq)
{
    const Lock lock(m_Mutex);
    m_Files.clear();
    m_Directories.clear();
    m_Lease = {};
    m_Oldest = m_Newest = seq;
}

} // end namespace bbflow
