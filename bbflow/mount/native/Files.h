#pragma once

#include "Caller.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <vector>

namespace bbflow
{

/** Number of a file or directory; the root's is 1. */
using FileId = uint64_t;

/** A file that a lookup found. */
struct Entry
{
    FileId Id = 0;
    struct stat Attributes = {};
    /** Whether it was just made: the kernel has never heard of its number. */
    bool IsNew = false;
};

/** One name in a directory, of which only the inode's number and kind count. */
struct DirectoryEntry
{
    std::string Name;
    uint64_t Number = 0;
    mode_t Kind = 0;
};

/** What of a file's attributes a program changes. */
struct Change
{
    /** FATTR_ flags of what counts below. */
    uint32_t Valid = 0;
    uint32_t Mode = 0;
    uint32_t Uid = 0;
    uint32_t Gid = 0;
    uint64_t Size = 0;
    timespec Accessed = {};
    timespec Modified = {};
};

/** A file that is open. All methods throw Errno; several threads may call one. */
class OpenFile
{
public:
    virtual ~OpenFile() = default;

    /** Whether the kernel writes it without its pages: it holds none of them then. */
    bool IsDirect = false;

    virtual size_t Read(const Caller &caller, char *target, size_t most, uint64_t offset) = 0;
    virtual size_t Write(const Caller &caller, std::string_view bytes, uint64_t offset) = 0;

    /** Writes to the end, as who opened it with O_APPEND does.
     *  @param offset where the kernel thinks that it is
     *  @return where it was */
    virtual uint64_t Append(const Caller &caller, const std::string_view bytes,
                            const uint64_t offset)
    {
        Write(caller, bytes, offset);
        return offset;
    }

    /** At each close(2) of a descriptor. */
    virtual void Flush(const Caller &caller) = 0;
    virtual void Sync(const Caller &caller) = 0;
    virtual void Allocate(const Caller &caller, int mode, uint64_t offset, uint64_t bytes) = 0;

    /** SEEK_DATA and SEEK_HOLE. */
    virtual uint64_t Seek(const Caller &caller, uint64_t offset, int whence) = 0;

    /** A file that the kernel may read and write by itself instead of asking; -1 if there is none.
     */
    virtual int Backing() const { return -1; }

    /** How long the file is for whoever has it open; nothing if others may change it at any time.
     */
    virtual std::optional<uint64_t> Size() const { return std::nullopt; }

    /** Whether it is being written here: then nobody else changes it. */
    virtual bool IsWritten() const { return false; }

    /** Whether what is written lands in this host's memory: the kernel's pages would be a copy. */
    virtual bool IsWrittenHere() const { return false; }

    /** Whether what the kernel cached at an earlier open still holds. */
    virtual bool MayKeepCache() const { return false; }
};

/** A tree of files behind a mount. All methods throw Errno; several threads may call one. */
class Files
{
public:
    virtual ~Files() = default;

    /** How long the kernel may keep what it was told of a file, and the names that lead there, in
     *  seconds: whatever changes it elsewhere takes it back from the kernel first. */
    virtual double KeptSecs(FileId) { return 0.0; }

    /** Whether the backing file of a file (`OpenFile::Backing`) takes what is written to it. */
    virtual bool HasWritableBackings() const { return false; }
    /** Lets those who have a file open read what others have made of it since. */
    virtual void LookAgain(const Caller &, FileId) {}
    virtual Entry Lookup(const Caller &caller, FileId parent, const std::string &name) = 0;
    /** What is known of an entry of a directory that was listed, without asking anybody; the
     *  kernel can look it up itself. */
    virtual std::optional<Entry> Peek(FileId, const DirectoryEntry &) { return std::nullopt; }
    /** The kernel forgets this many lookups of a file. */
    virtual void Forget(FileId, uint64_t) {}
    virtual struct stat Get(const Caller &caller, FileId id, OpenFile *open) = 0;
    virtual struct stat Set(const Caller &caller, FileId id, const Change &change,
                            OpenFile *open) = 0;
    virtual Entry MakeDirectory(const Caller &caller, FileId parent, const std::string &name,
                                uint32_t mode) = 0;
    virtual Entry MakeNode(const Caller &caller, FileId parent, const std::string &name,
                           uint32_t mode, uint32_t device) = 0;
    virtual Entry MakeSymlink(const Caller &caller, FileId parent, const std::string &name,
                              const std::string &target) = 0;
    virtual Entry Link(const Caller &caller, FileId id, FileId parent, const std::string &name) = 0;
    virtual std::string ReadLink(const Caller &caller, FileId id) = 0;
    virtual void Unlink(const Caller &caller, FileId parent, const std::string &name) = 0;
    virtual void RemoveDirectory(const Caller &caller, FileId parent, const std::string &name) = 0;
    /** @param flags of renameat2(2) */
    virtual void Rename(const Caller &caller, FileId from, const std::string &name, FileId to,
                        const std::string &newName, uint32_t flags) = 0;
    /** @param flags of open(2), without O_CREAT and O_EXCL */
    virtual std::unique_ptr<OpenFile> Open(const Caller &caller, FileId id, uint32_t flags) = 0;
    virtual std::unique_ptr<OpenFile> Create(const Caller &caller, FileId parent,
                                             const std::string &name, uint32_t mode, uint32_t flags,
                                             Entry &made) = 0;
    /** All names of a directory, without `.` and `..`. */
    virtual std::vector<DirectoryEntry> List(const Caller &caller, FileId id) = 0;
    virtual struct statvfs Statistics(const Caller &caller) = 0;
};

} // end namespace bbflow
