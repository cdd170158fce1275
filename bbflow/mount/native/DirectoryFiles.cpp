#include "DirectoryFiles.h"

#include "DescriptorFile.h"
#include "Errno.h"
#include "FuseKernel.h"

#include <array>
#include <dirent.h>
#include <fcntl.h>
#include <stdexcept>
#include <unistd.h>

namespace bbflow
{

DirectoryFiles::DirectoryFiles(const std::string &root)
{
    const int descriptor = open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
    {
        throw std::runtime_error("bbflow: there is no directory " + root);
    }
    m_Known[FUSE_ROOT_ID] = {descriptor, 1};
}

DirectoryFiles::~DirectoryFiles()
{
    for (const auto &[id, known] : m_Known)
    {
        close(known.Descriptor);
    }
}

int DirectoryFiles::DescriptorOf(const FileId id)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    const auto found = m_Known.find(id);
    if (found == m_Known.end())
    {
        throw Errno(ESTALE);
    }
    return found->second.Descriptor;
}

/** A path that means the file itself, whatever its name is now. */
std::string DirectoryFiles::PathOf(const FileId id)
{
    return "/proc/self/fd/" + std::to_string(DescriptorOf(id));
}

Entry DirectoryFiles::Remember(const int descriptor)
{
    Entry entry;
    if (fstat(descriptor, &entry.Attributes) < 0)
    {
        const int error = errno;
        close(descriptor);
        throw Errno(error);
    }
    const std::lock_guard<std::mutex> lock(m_Mutex);
    const std::pair own(entry.Attributes.st_dev, entry.Attributes.st_ino);
    const auto found = m_Ids.find(own);
    if (found != m_Ids.end())
    {
        entry.Id = found->second;
        ++m_Known[entry.Id].Lookups;
        close(descriptor);
        return entry;
    }
    entry.Id = m_Next++;
    m_Ids[own] = entry.Id;
    m_Known[entry.Id] = {descriptor, 1};
    return entry;
}

void DirectoryFiles::Forget(const FileId id, const uint64_t lookups)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    const auto found = m_Known.find(id);
    if (found == m_Known.end() || id == FUSE_ROOT_ID || (found->second.Lookups -= lookups) > 0)
    {
        return;
    }
    struct stat attributes = {};
    fstat(found->second.Descriptor, &attributes);
    close(found->second.Descriptor);
    m_Ids.erase({attributes.st_dev, attributes.st_ino});
    m_Known.erase(found);
}

Entry DirectoryFiles::Lookup(const Caller &, const FileId parent, const std::string &name)
{
    return Remember(
        Checked(openat(DescriptorOf(parent), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)));
}

struct stat DirectoryFiles::Get(const Caller &, const FileId id, OpenFile *)
{
    struct stat attributes = {};
    Checked(fstat(DescriptorOf(id), &attributes));
    return attributes;
}

struct stat DirectoryFiles::Set(const Caller &caller, const FileId id, const Change &change,
                                OpenFile *open)
{
    const std::string path = PathOf(id);
    if ((change.Valid & FATTR_MODE) != 0)
    {
        Checked(chmod(path.c_str(), change.Mode));
    }
    if ((change.Valid & (FATTR_UID | FATTR_GID)) != 0)
    {
        const uid_t uid = (change.Valid & FATTR_UID) != 0 ? change.Uid : static_cast<uid_t>(-1);
        const gid_t gid = (change.Valid & FATTR_GID) != 0 ? change.Gid : static_cast<gid_t>(-1);
        Checked(fchownat(DescriptorOf(id), "", uid, gid, AT_EMPTY_PATH));
    }
    if ((change.Valid & FATTR_SIZE) != 0)
    {
        Checked(truncate(path.c_str(), static_cast<off_t>(change.Size)));
    }
    if ((change.Valid & (FATTR_ATIME | FATTR_MTIME)) != 0)
    {
        std::array<timespec, 2> times = {change.Accessed, change.Modified};
        times[0].tv_nsec = (change.Valid & FATTR_ATIME) != 0 ? times[0].tv_nsec : UTIME_OMIT;
        times[1].tv_nsec = (change.Valid & FATTR_MTIME) != 0 ? times[1].tv_nsec : UTIME_OMIT;
        Checked(utimensat(AT_FDCWD, path.c_str(), times.data(), 0));
    }
    return Get(caller, id, open);
}

Entry DirectoryFiles::MakeDirectory(const Caller &caller, const FileId parent,
                                    const std::string &name, const uint32_t mode)
{
    Checked(mkdirat(DescriptorOf(parent), name.c_str(), mode));
    return Lookup(caller, parent, name);
}

Entry DirectoryFiles::MakeNode(const Caller &caller, const FileId parent, const std::string &name,
                               const uint32_t mode, const uint32_t device)
{
    Checked(mknodat(DescriptorOf(parent), name.c_str(), mode, device));
    return Lookup(caller, parent, name);
}

Entry DirectoryFiles::MakeSymlink(const Caller &caller, const FileId parent,
                                  const std::string &name, const std::string &target)
{
    Checked(symlinkat(target.c_str(), DescriptorOf(parent), name.c_str()));
    return Lookup(caller, parent, name);
}

Entry DirectoryFiles::Link(const Caller &caller, const FileId id, const FileId parent,
                           const std::string &name)
{
    Checked(linkat(AT_FDCWD, PathOf(id).c_str(), DescriptorOf(parent), name.c_str(),
                   AT_SYMLINK_FOLLOW));
    return Lookup(caller, parent, name);
}

std::string DirectoryFiles::ReadLink(const Caller &, const FileId id)
{
    std::string target(4096, '\0');
    const ssize_t n = Checked(readlinkat(DescriptorOf(id), "", target.data(), target.size()));
    target.resize(static_cast<size_t>(n));
    return target;
}

void DirectoryFiles::Unlink(const Caller &, const FileId parent, const std::string &name)
{
    Checked(unlinkat(DescriptorOf(parent), name.c_str(), 0));
}

void DirectoryFiles::RemoveDirectory(const Caller &, const FileId parent, const std::string &name)
{
    Checked(unlinkat(DescriptorOf(parent), name.c_str(), AT_REMOVEDIR));
}

void DirectoryFiles::Rename(const Caller &, const FileId from, const std::string &name,
                            const FileId to, const std::string &newName, const uint32_t flags)
{
    Checked(renameat2(DescriptorOf(from), name.c_str(), DescriptorOf(to), newName.c_str(), flags));
}

std::unique_ptr<OpenFile> DirectoryFiles::Open(const Caller &, const FileId id,
                                               const uint32_t flags)
{
    const int wanted = static_cast<int>(flags) & ~(O_NOFOLLOW | O_APPEND);
    return std::make_unique<DescriptorFile>(Checked(open(PathOf(id).c_str(), wanted | O_CLOEXEC)));
}

std::unique_ptr<OpenFile> DirectoryFiles::Create(const Caller &caller, const FileId parent,
                                                 const std::string &name, const uint32_t mode,
                                                 const uint32_t flags, Entry &made)
{
    const int wanted = (static_cast<int>(flags) & ~(O_NOFOLLOW | O_APPEND)) | O_CREAT | O_CLOEXEC;
    auto file = std::make_unique<DescriptorFile>(
        Checked(openat(DescriptorOf(parent), name.c_str(), wanted, mode)));
    made = Lookup(caller, parent, name);
    return file;
}

std::vector<DirectoryEntry> DirectoryFiles::List(const Caller &, const FileId id)
{
    const int descriptor = Checked(open(PathOf(id).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<DIR, int (*)(DIR *)> directory(fdopendir(descriptor), closedir);
    std::vector<DirectoryEntry> entries;
    while (const dirent *found = readdir(directory.get()))
    {
        const std::string name = found->d_name;
        if (name != "." && name != "..")
        {
            DirectoryEntry entry;
            entry.Name = name;
            entry.Number = found->d_ino;
            entry.Kind = static_cast<mode_t>(DTTOIF(found->d_type));
            entries.push_back(std::move(entry));
        }
    }
    return entries;
}

struct statvfs DirectoryFiles::Statistics(const Caller &)
{
    struct statvfs found = {};
    Checked(fstatvfs(DescriptorOf(FUSE_ROOT_ID), &found));
    return found;
}

} // end namespace bbflow
