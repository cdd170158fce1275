#pragma once

#include "NodeFile.h"
#include "SeenDirectories.h"

#include <atomic>
#include <sys/statvfs.h>

namespace bbflow
{

/** The files on the BB nodes of a contact file, over all their masters. All methods throw Errno;
 *  several threads may call one. */
class NodeFiles
{
public:
    /** @param patience how long calls wait for a master or node that is away, in seconds
     *  @throws std::runtime_error if there is no master */
    NodeFiles(const std::string &contact, double patience);

    /** Is told what has changed elsewhere. */
    KernelMemory &Kernel() { return m_Kernel; }

    /** How long the kernel may keep what it was told of a file, and the names that lead there, in
     *  seconds: whatever changes it elsewhere takes it back from the kernel first. */
    double KeptSecs(const FileId id) { return VolumeOf(id).Link().KernelSecs(); }
    /** Makes a file's open handles read what others have made of it since. */
    void LookAgain(const Caller &caller, FileId id);
    Entry Lookup(const Caller &caller, FileId parent, const std::string &name);
    /** The kernel forgets lookups of a file. */
    void Forget(const FileId id) { m_Seen.Drop(id); }
    struct stat Get(const Caller &caller, FileId id);
    struct stat Set(const Caller &caller, FileId id, const Change &change);
    Entry MakeDirectory(const Caller &caller, FileId parent, const std::string &name,
                        uint32_t mode);
    Entry MakeNode(const Caller &caller, FileId parent, const std::string &name, uint32_t mode,
                   uint32_t device);
    Entry MakeSymlink(const Caller &caller, FileId parent, const std::string &name,
                      const std::string &target);
    Entry Link(const Caller &caller, FileId id, FileId parent, const std::string &name);
    std::string ReadLink(const Caller &caller, FileId id);
    void Unlink(const Caller &caller, FileId parent, const std::string &name);
    void RemoveDirectory(const Caller &caller, FileId parent, const std::string &name);
    /** @param flags of renameat2(2) */
    void Rename(const Caller &caller, FileId from, const std::string &name, FileId to,
                const std::string &newName, uint32_t flags);
    /** @param flags of open(2), without O_CREAT and O_EXCL */
    std::unique_ptr<NodeFile> Open(const Caller &caller, FileId id, uint32_t flags);
    std::unique_ptr<NodeFile> Create(const Caller &caller, FileId parent, const std::string &name,
                                     uint32_t mode, uint32_t flags, Entry &made);
    /** All names of a directory, without `.` and `..`. */
    std::vector<DirectoryEntry> List(const Caller &caller, FileId id);
    /** What is known of an entry of a directory that was listed, without asking anybody; the
     *  kernel can look it up itself. */
    std::optional<Entry> Peek(FileId parent, const DirectoryEntry &entry);
    struct statvfs Statistics(const Caller &caller);

private:
    /** Where a master's volume is once it has answered. */
    struct Place
    {
        std::mutex Making;
        std::unique_ptr<Volume> Made;
        std::atomic<Volume *> Known{nullptr};
    };

    const MountedContact m_Contact;
    const double m_Patience;
    KernelMemory m_Kernel;
    std::mutex m_Mutex;
    std::map<uint64_t, Place> m_Volumes;
    SeenDirectories m_Seen;

    Volume &VolumeOf(FileId id);
    Place &PlaceOf(uint64_t master);
    void Note(const Attr &attr);
    std::unique_ptr<NodeFile> AskToWrite(const Caller &caller, FileId id,
                                         const std::shared_ptr<OpenInode> &state, bool isTruncated);
    std::unique_ptr<NodeFile> AskToOpen(const Caller &caller, FileId id,
                                        const std::shared_ptr<OpenInode> &state, bool isForWriting,
                                        bool isTruncated);
    Attr AskForAttr(const Caller &caller, FileId id);
    Entry Shown(const Caller &caller, const Attr &attr);
    std::vector<DirectoryEntry> AskForList(const Caller &caller, FileId id);
    Entry AskForEntry(const Caller &caller, FileId parent, const std::string &name,
                      Value::Map request);
    void Remove(const Caller &caller, const std::string &operation, FileId parent,
                const std::string &name);
};

} // end namespace bbflow
