#pragma once

#include "OpenInode.h"

namespace bbflow
{

/** A program's open file on BB nodes. */
class NodeFile final : public OpenFile
{
public:
    NodeFile(Volume &volume, FileId id, std::shared_ptr<OpenInode> state, int64_t handle,
             bool isForWriting);
    ~NodeFile() override;

    size_t Read(const Caller &caller, char *target, size_t most, uint64_t offset) override;
    size_t Write(const Caller &caller, std::string_view bytes, uint64_t offset) override;
    uint64_t Append(const Caller &caller, std::string_view bytes, uint64_t offset) override;
    void Flush(const Caller &caller) override;
    void Sync(const Caller &caller) override;
    void Allocate(const Caller &caller, int mode, uint64_t offset, uint64_t bytes) override;
    uint64_t Seek(const Caller &caller, uint64_t offset, int whence) override;
    int Backing() const override;
    std::optional<uint64_t> Size() const override { return m_State->Size(); }
    bool IsWritten() const override { return m_State->IsWritten(); }
    bool IsWrittenHere() const override { return m_State->IsHere(); }
    bool MayKeepCache() const override;

private:
    Volume &m_Volume;
    const FileId m_Id;
    const std::shared_ptr<OpenInode> m_State;
    const int64_t m_Handle;
    const bool m_IsForWriting;
};

} // end namespace bbflow
