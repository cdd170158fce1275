#include "OpenInode.h"

#include "Errno.h"

#include <algorithm>
#include <sys/stat.h>

namespace bbflow
{

namespace
{

/** The kernel tells of a last close(2) within this time, if it was one. */
constexpr std::chrono::milliseconds ClosingTime{20};

} // end empty namespace

OpenInode::~OpenInode()
{
    Settle();
    if (m_Pages)
    {
        m_Volume.NotePages(m_Id, m_Number, m_IsDirty ? std::nullopt : std::optional(m_Map.Bytes()));
    }
    while (!m_Readers.empty()) // those that were opened to find pieces again
    {
        DropHandle(m_Readers, m_Readers.back());
    }
}

void OpenInode::DropHandle(std::vector<int64_t> &handles, const int64_t handle)
{
    handles.erase(std::find(handles.begin(), handles.end(), handle));
    if (std::find(handles.begin(), handles.end(), handle) == handles.end())
    {
        const bool isWriter = &handles == &m_Writers;
        m_Volume.CloseHandle(handle, isWriter && (m_IsDirty || m_HasFailed));
        m_HasFailed = m_HasFailed && !isWriter; // the master lets go of what it left behind
    }
}

void OpenInode::WaitForClosing(const Caller &caller)
{
    FileLock::Alone lock = m_Lock.HaveAlone(caller);
    m_Lock.Wait(lock, caller, ClosingTime, [this] { return m_Writers.empty() || !m_IsClosing; });
    m_IsClosing = false; // who has it open still is no longer waited for
}

std::optional<int64_t> OpenInode::ShareReading(const Caller &caller, const Attr &latest)
{
    const FileLock::Alone lock = m_Lock.HaveAlone(caller);
    const bool isSame = m_Committed == latest.Version &&
                        m_Map.Size == static_cast<uint64_t>(latest.File.Attributes.st_size);
    if (m_Readers.empty() || !m_Writers.empty() || m_IsDirty || m_Map.IsCold || !isSame ||
        m_Generation != m_Volume.Link().Generation())
    {
        return std::nullopt;
    }
    m_Readers.push_back(m_Readers.front());
    return m_Readers.front();
}

void OpenInode::CheckGeneration() const
{
    if (m_Generation != m_Volume.Link().Generation())
    {
        throw Errno(EIO); // the session in which it was opened is over
    }
}

/** Has the file alone to take in a handle, which is closed if that isn't waited for. */
FileLock::Alone OpenInode::LockToTake(const Caller &caller, const int64_t handle)
{
    try
    {
        return m_Lock.HaveAlone(caller);
    }
    catch (const Errno &)
    {
        m_Volume.CloseHandle(handle, false);
        throw;
    }
}

int64_t OpenInode::TakeOpened(const Caller &caller, const Value &reply, const bool isForWriting,
                              const bool isTruncated)
{
    const int64_t handle = reply.IntegerAt("handle");
    const FileLock::Alone lock = LockToTake(caller, handle);
    if (m_Readers.empty() && m_Writers.empty())
    {
        m_Generation = m_Volume.Link().Generation();
        m_Newest = 0;
    }
    const bool isKept = isForWriting ? m_IsDirty : HasOwnMap();
    std::vector<int64_t> &handles = isForWriting ? m_Writers : m_Readers;
    handles.push_back(handle);
    if (!isKept)
    {
        try
        {
            TakeMap(reply, isForWriting);
        }
        catch (...)
        {
            DropHandle(handles, handle);
            throw;
        }
    }
    if (isForWriting)
    {
        m_IsClosing = false;
        m_Map.Version = reply.UnsignedAt("version");
        m_Map.MayAppend = reply.BoolAt("append");
    }
    if (isTruncated)
    {
        Settle();
        m_Map.Pieces.clear();
        m_Map.Size = 0;
        MarkDirty();
    }
    return handle;
}

bool OpenInode::IsWritten(const Caller &caller)
{
    const FileLock::Shared lock = m_Lock.Share(caller);
    return HasOwnMap();
}

/** What a writer has is newer than what the master tells others, and lies where its handle says. */
bool OpenInode::HasOwnMap() const { return m_IsDirty || !m_Writers.empty(); }

/** @param isForWriting the newest then: no one else has written since it was given */
void OpenInode::TakeMap(const Value &reply, const bool isForWriting)
{
    FileMap map = FileMapFrom(reply);
    const uint64_t version = reply.Find("attr")->UnsignedAt("version");
    if (!isForWriting && version < m_Newest)
    {
        return;
    }
    m_Newest = version;
    const size_t both = std::min(map.Pieces.size(), m_Map.Pieces.size());
    for (size_t i = 0; i < both; ++i)
    {
        if (map.Pieces[i].Version == m_Map.Pieces[i].Version)
        {
            map.Pieces[i].File = m_Map.Pieces[i].File;
        }
    }
    map.Version = m_Map.Version;
    map.MayAppend = m_Map.MayAppend;
    m_Map = std::move(map);
    m_Committed = version;
    m_Ready.clear();
}

bool OpenInode::TryCloseReading(const int64_t handle, const bool isOnlyIfCold)
{
    const FileLock::Alone lock(m_Lock, std::try_to_lock);
    if (!lock || (isOnlyIfCold && !m_Map.IsCold))
    {
        return false;
    }
    DropHandle(m_Readers, handle);
    return true;
}

bool OpenInode::IsCold(const Caller &caller)
{
    const FileLock::Shared lock = m_Lock.Share(caller);
    return m_Map.IsCold;
}

void Unwritten::Show(struct stat &attributes) const
{
    if (Size)
    {
        attributes.st_size = static_cast<off_t>(*Size);
        attributes.st_blocks = (attributes.st_size + 511) / 512;
        attributes.st_mtim = Time;
        attributes.st_ctim = Time;
    }
}

Unwritten OpenInode::NotCommitted()
{
    const std::lock_guard<std::mutex> lock(m_ShownMutex);
    return m_Shown;
}

uint64_t OpenInode::Size(const Caller &caller)
{
    const FileLock::Shared lock = m_Lock.Share(caller);
    return m_Map.Size;
}

bool OpenInode::IsHere(const Caller &caller)
{
    const FileLock::Shared lock = m_Lock.Share(caller);
    try
    {
        return !m_Map.Ring.empty() && m_Volume.Nodes().At(m_Map.NodeOf(0))->IsLocal();
    }
    catch (const Errno &)
    {
        return false; // the node is away
    }
}

int OpenInode::Backing(const Caller &caller)
{
    const FileLock::Shared lock = m_Lock.Share(caller);
    const bool isWhole = m_Map.Pieces.size() == 1 && m_Map.Pieces[0].Version != 0 &&
                         m_Map.Pieces[0].Bytes == m_Map.Size;
    if (!m_Writers.empty() || !isWhole || m_Map.IsCold)
    {
        return -1;
    }
    int descriptor = -1;
    try
    {
        descriptor = FileFor(0, 0)->Descriptor();
    }
    catch (const Errno &)
    {
        return -1; // who reads waits for it
    }
    struct stat local = {};
    const bool isJust = descriptor >= 0 && fstat(descriptor, &local) == 0 &&
                        static_cast<uint64_t>(local.st_size) == m_Map.Size;
    return isJust ? descriptor : -1;
}

bool OpenInode::MayKeepPages(const Caller &caller)
{
    const FileLock::Alone lock = m_Lock.HaveAlone(caller);
    const Content bytes = m_Map.Bytes();
    const bool isSame = m_Pages ? *m_Pages == bytes : m_Volume.HasPages(m_Id, bytes);
    m_Pages = bytes;
    return isSame && !m_IsDirty;
}

} // end namespace bbflow
