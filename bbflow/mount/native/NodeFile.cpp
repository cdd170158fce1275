#include "NodeFile.h"

#include <fcntl.h>
#include <iostream>
#include <unistd.h>

namespace bbflow
{

NodeFile::NodeFile(Volume &volume, const FileId id, std::shared_ptr<OpenInode> state,
                   const int64_t handle, const bool isForWriting)
: m_Volume(volume), m_Id(id), m_State(std::move(state)), m_Handle(handle),
  m_IsForWriting(isForWriting)
{
}

NodeFile::~NodeFile()
{
    if (!m_IsForWriting)
    {
        m_Volume.Lingering().Add(m_Id, m_State, m_Handle);
        return;
    }
    const std::atomic<bool> never{false};
    try
    {
        m_State->CloseWriting(Caller{0, 0, 0, never}, m_Handle);
    }
    catch (const std::exception &error)
    {
        std::cerr << "bbflow-mount: what was written to a file after its last close is lost: "
                  << error.what() << std::endl;
    }
}

size_t NodeFile::Read(const Caller &caller, char *target, const size_t most, const uint64_t offset)
{
    return m_State->Read(caller, target, most, offset);
}

size_t NodeFile::Write(const Caller &caller, const std::string_view bytes, const uint64_t offset)
{
    Patience patience = m_Volume.Link().NewPatience();
    uint64_t done = 0;
    while (done < bytes.size())
    {
        try
        {
            const std::optional<Lack> lack =
                m_State->TryWritePart(caller, bytes.substr(done), offset + done, done);
            if (lack)
            {
                m_Volume.WaitForRoom(caller, *lack); // without the lock: others write meanwhile
            }
        }
        catch (const Errno &error)
        {
            try
            {
                patience.WaitFor(error, caller);
            }
            catch (const Errno &)
            {
                if (done == 0)
                {
                    throw;
                }
                break; // what is written counts: the program is told how much that is
            }
        }
    }
    return done;
}

void NodeFile::Commit(const Caller &caller, const CommitFor what)
{
    if (m_IsForWriting)
    {
        m_State->Commit(caller, what);
    }
}

void NodeFile::Allocate(const Caller &caller, const int mode, const uint64_t offset,
                        const uint64_t bytes)
{
    if (mode != 0)
    {
        throw Errno(EOPNOTSUPP); // FALLOC_FL_KEEP_SIZE, PUNCH_HOLE and the others
    }
    if (m_State->Size(caller) < offset + bytes)
    {
        m_State->TryTruncate(caller, offset + bytes);
    }
}

uint64_t NodeFile::Seek(const Caller &caller, const uint64_t offset, const int whence)
{
    const uint64_t size = m_State->Size(caller);
    if (offset >= size)
    {
        throw Errno(ENXIO);
    }
    return whence == SEEK_DATA ? offset : size;
}

bool NodeFile::MayKeepCache(const Caller &caller) const { return m_State->MayKeepPages(caller); }

int NodeFile::Backing(const Caller &caller) const
{
    return m_IsForWriting ? -1 : m_State->Backing(caller);
}

} // end namespace bbflow
