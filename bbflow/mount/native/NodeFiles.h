#pragma once

#include "Files.h"
#include "SeenDirectories.h"
#include "Volume.h"

#include <atomic>

namespace bbflow
{

/** The files on the BB nodes of a contact file, over all their masters. */
class NodeFiles final : public Files
{
public:
    /** @param patience how long calls wait for a master or node that is away, in seconds
     *  @throws std::runtime_error if there is no master */
    NodeFiles(const std::string &contact, double patience);

    /** Is told what has changed elsewhere. */
    KernelMemory &Kernel() { return m_Kernel; }

    double KeptSecs(const FileId id) override { return VolumeOf(id).Link().KernelSecs(); }
    void LookAgain(const Caller &caller, FileId id) override;
    Entry Lookup(const Caller &caller, FileId parent, const std::string &name) override;
    void Forget(FileId id, uint64_t) override { m_Seen.Drop(id); }
    struct stat Get(const Caller &caller, FileId id, OpenFile *open) override;
    struct stat Set(const Caller &caller, FileId id, const Change &change, OpenFile *open) override;
    Entry MakeDirectory(const Caller &caller, FileId parent, const std::string &name,
                        uint32_t mode) override;
    Entry MakeNode(const Caller &caller, FileId parent, const std::string &name, uint32_t mode,
                   uint32_t device) override;
    Entry MakeSymlink(const Caller &caller, FileId parent, const std::string &name,
                      const std::string &target) override;
    Entry Link(const Caller &caller, FileId id, FileId parent, const std::string &name) override;
    std::string ReadLink(const Caller &caller, FileId id) override;
    void Unlink(const Caller &caller, FileId parent, const std::string &name) override;
    void RemoveDirectory(const Caller &caller, FileId parent, const std::string &name) override;
    void Rename(const Caller &caller, FileId from, const std::string &name, FileId to,
                const std::string &newName, uint32_t flags) override;
    std::unique_ptr<OpenFile> Open(const Caller &caller, FileId id, uint32_t flags) override;
    std::unique_ptr<OpenFile> Create(const Caller &caller, FileId parent, const std::string &name,
                                     uint32_t mode, uint32_t flags, Entry &made) override;
    std::vector<DirectoryEntry> List(const Caller &caller, FileId id) override;
    std::optional<Entry> Peek(FileId parent, const DirectoryEntry &entry) override;
    struct statvfs Statistics(const Caller &caller) override;

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
    std::unique_ptr<OpenFile> AskToWrite(const Caller &caller, FileId id,
                                         const std::shared_ptr<OpenInode> &state, bool isTruncated);
    std::unique_ptr<OpenFile> AskToOpen(const Caller &caller, FileId id,
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
