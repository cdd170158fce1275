#pragma once

#include "Files.h"

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

namespace bbflow
{

/** A plain directory behind a mount: what FUSE itself costs, and a check of the session that needs
 *  no node. It serves whoever started it, with their own rights. */
class DirectoryFiles final : public Files
{
public:
    /** @throws std::runtime_error if there is no such directory */
    explicit DirectoryFiles(const std::string &root);
    ~DirectoryFiles() override;

    bool HasWritableBackings() const override { return true; }
    Entry Lookup(const Caller &caller, FileId parent, const std::string &name) override;
    void Forget(FileId id, uint64_t lookups) override;
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
    struct statvfs Statistics(const Caller &caller) override;

private:
    /** A file that the kernel knows. */
    struct Known
    {
        int Descriptor;
        uint64_t Lookups;
    };

    std::mutex m_Mutex;
    std::unordered_map<FileId, Known> m_Known;
    /** Device and inode number in the directory to the kernel's. */
    std::map<std::pair<dev_t, ino_t>, FileId> m_Ids;
    FileId m_Next = 2;

    int DescriptorOf(FileId id);
    std::string PathOf(FileId id);
    Entry Remember(int descriptor);
};

} // end namespace bbflow
