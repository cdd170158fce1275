#pragma once

#include "Backings.h"
#include "KnownNodes.h"
#include "Reply.h"
#include "Request.h"

#include <atomic>
#include <functional>

namespace bbflow
{

class NodeFile;
class NodeFiles;

/** Turns the kernel's requests into calls of a tree of files, and their results into replies. */
class Dispatch
{
public:
    /** Makes the kernel forget the bytes of a file from an offset on (none if that is -1), and its
     *  attributes. */
    using Invalidate = std::function<void(uint64_t, int64_t)>;

    Dispatch(NodeFiles &files, Backings &backings, NodeIds &nodes, KnownNodes &known,
             Invalidate invalidate)
    : m_Files(files), m_Backings(backings), m_Nodes(nodes), m_Known(known),
      m_Invalidate(std::move(invalidate))
    {
    }

    /** Whether a direct write drops the pages that the kernel has of these bytes (Linux 6.6). */
    void SetDirectWrites(const bool isThere) { m_HasDirectWrites = isThere; }

    /** Whether the kernel can be made to forget all names that it keeps (Linux 6.16). */
    void SetForgetsNames(const bool isThere) { m_MayForgetNames = isThere; }

    /** Answers one request, whatever happens. */
    void Handle(const Request &request, Reply &reply);

    /** Whether a file or a directory is open. */
    bool HasOpen() const { return m_Open > 0; }

private:
    using Method = void (Dispatch::*)(const Request &, Reply &);

    NodeFiles &m_Files;
    Backings &m_Backings;
    NodeIds &m_Nodes;
    KnownNodes &m_Known;
    const Invalidate m_Invalidate;
    bool m_HasDirectWrites = false;
    bool m_MayForgetNames = false;
    std::atomic<int64_t> m_Open{0};

    static Method MethodOf(uint32_t opcode);

    // DispatchNames.cpp
    void Lookup(const Request &request, Reply &reply);
    void MakeDirectory(const Request &request, Reply &reply);
    void MakeNode(const Request &request, Reply &reply);
    void Symlink(const Request &request, Reply &reply);
    void Link(const Request &request, Reply &reply);
    void ReadLink(const Request &request, Reply &reply);
    void Unlink(const Request &request, Reply &reply);
    void RemoveDirectory(const Request &request, Reply &reply);
    void Rename(const Request &request, Reply &reply);
    void RenameWithFlags(const Request &request, Reply &reply);
    void Forget(const Request &request, Reply &reply);
    void ForgetMany(const Request &request, Reply &reply);
    fuse_entry_out Found(const Caller &caller, const Entry &entry);

    // DispatchAttributes.cpp
    void Announce(const Caller &caller, uint64_t node, const struct stat &attributes);
    void GetAttributes(const Request &request, Reply &reply);
    void SetAttributes(const Request &request, Reply &reply);
    void Statistics(const Request &request, Reply &reply);
    void DropPrivileges(const Request &request);

    // DispatchOpen.cpp
    void Open(const Request &request, Reply &reply);
    void Create(const Request &request, Reply &reply);
    void Read(const Request &request, Reply &reply);
    void Write(const Request &request, Reply &reply);
    void Flush(const Request &request, Reply &reply);
    void Sync(const Request &request, Reply &reply);
    void Release(const Request &request, Reply &reply);
    void Allocate(const Request &request, Reply &reply);
    void Seek(const Request &request, Reply &reply);
    bool TakeSize(const Caller &caller, uint64_t node, uint32_t flags, const NodeFile &file);
    uint32_t FlagsFor(const Caller &caller, uint64_t node, uint32_t flags, const NodeFile &file,
                      const Passage &passage);
    fuse_open_out Opened(const Caller &caller, uint64_t node, uint32_t flags,
                         std::unique_ptr<NodeFile> file);

    // DispatchDirectories.cpp
    void OpenDirectory(const Request &request, Reply &reply);
    void ReadDirectory(const Request &request, Reply &reply);
    void ReadDirectoryPlus(const Request &request, Reply &reply);
    void ReleaseDirectory(const Request &request, Reply &reply);
    void SyncDirectory(const Request &request, Reply &reply);
    std::string EncodeWhole(const Caller &caller, FileId parent, const DirectoryEntry &entry,
                            uint64_t next);
};

} // end namespace bbflow
