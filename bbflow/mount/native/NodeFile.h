#pragma once

#include "OpenInode.h"

namespace bbflow
{

/** A program's open file on BB nodes. All methods throw Errno; several threads may call one. */
class NodeFile
{
public:
    NodeFile(Volume &volume, FileId id, std::shared_ptr<OpenInode> state, int64_t handle,
             bool isForWriting);
    ~NodeFile();
    NodeFile(const NodeFile &) = delete;
    NodeFile &operator=(const NodeFile &) = delete;

    /** Whether the kernel writes it without its pages: it holds none of them then. */
    bool IsDirect = false;

    size_t Read(const Caller &caller, char *target, size_t most, uint64_t offset);

    /** @return how many bytes were written: not all if it fails after some, as write(2) has it */
    size_t Write(const Caller &caller, std::string_view bytes, uint64_t offset);

    /** Where an append goes; the kernel lets one program append at a time.
     *  @param offset where the kernel thinks that it is */
    uint64_t EndFor(const Caller &caller, uint64_t offset)
    {
        return m_State->EndFor(caller, offset);
    }

    /** Makes what was written through it count for all. */
    void Commit(const Caller &caller, CommitFor what);
    void Allocate(const Caller &caller, int mode, uint64_t offset, uint64_t bytes);

    /** SEEK_DATA and SEEK_HOLE. */
    uint64_t Seek(const Caller &caller, uint64_t offset, int whence);

    /** A file that the kernel may read by itself instead of asking; -1 if there is none. */
    int Backing(const Caller &caller) const;

    /** How long the file is for whoever has it open. */
    uint64_t Size(const Caller &caller) const { return m_State->Size(caller); }

    /** Whether it is being written here: then no one else changes it. */
    bool IsWritten(const Caller &caller) const { return m_State->IsWritten(caller); }

    /** Whether what is written lands in this host's memory: the kernel's pages would be a copy. */
    bool IsWrittenHere(const Caller &caller) const { return m_State->IsHere(caller); }

    /** Whether what the kernel cached at an earlier open still holds. */
    bool MayKeepCache(const Caller &caller) const;

private:
    Volume &m_Volume;
    const FileId m_Id;
    const std::shared_ptr<OpenInode> m_State;
    const int64_t m_Handle;
    const bool m_IsForWriting;
};

} // end namespace bbflow
