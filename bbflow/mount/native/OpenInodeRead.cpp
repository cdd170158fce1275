#include "OpenInode.h"

#include <algorithm>
#include <cstring>

namespace bbflow
{

namespace
{

/** A cold file is asked for in such parts. */
constexpr uint64_t PartBytes = uint64_t{4} << 20;
/** How many times the master is asked where pieces lie that aren't where it said. */
constexpr int ReopenTries = 10;

} // end empty namespace

void OpenInode::Reopen(const Caller &caller)
{
    const Value reply =
        m_Volume.Link().Ask(caller, {{"op", "open"}, {"ino", m_Id}, {"write", false}});
    const int64_t handle = reply.IntegerAt("handle");
    const FileLock::Alone lock = LockToTake(caller, handle);
    m_Readers.push_back(handle);
    if (!HasOwnMap())
    {
        for (Piece &piece : m_Map.Pieces)
        {
            piece.File.reset();
        }
        TakeMap(reply, false);
    }
}

void OpenInode::LookAgain(const Caller &caller)
{
    const std::optional<Attr> latest = m_Volume.Kept().Find(m_Id);
    {
        const FileLock::Shared lock = m_Lock.Share(caller);
        if (m_Readers.empty() || HasOwnMap() || (latest && m_Committed == latest->Version))
        {
            return;
        }
    }
    try
    {
        Reopen(caller);
    }
    catch (const Errno &)
    {
        // It is gone, or that is unknown: who reads beyond what this mount has of it gets EIO.
    }
}

size_t OpenInode::Read(const Caller &caller, char *target, const size_t most, const uint64_t offset)
{
    Patience patience = m_Volume.Link().NewPatience();
    for (int left = ReopenTries;;)
    {
        try
        {
            return ReadOnce(caller, target, most, offset);
        }
        catch (const Errno &error)
        {
            const bool isMissing = error.Number() == ENOENT;
            if (isMissing && left-- == 0)
            {
                throw Errno(EIO);
            }
            if (!isMissing || left + 1 < ReopenTries) // the master may not know it yet
            {
                patience.WaitFor(isMissing ? Errno(EHOSTDOWN) : error, caller);
            }
        }
        Reopen(caller); // the pieces lie elsewhere now
    }
}

size_t OpenInode::ReadOnce(const Caller &caller, char *target, const size_t most,
                           const uint64_t offset)
{
    const FileLock::Shared lock = m_Lock.Share(caller);
    CheckGeneration();
    if (!m_Committed)
    {
        throw Errno(ENOENT);
    }
    if (offset >= m_Map.Size)
    {
        return 0;
    }
    const uint64_t bytes = std::min<uint64_t>(most, m_Map.Size - offset);
    for (uint64_t done = 0; done < bytes;)
    {
        const uint64_t index = (offset + done) / m_Map.PieceBytes;
        const uint64_t start = (offset + done) % m_Map.PieceBytes;
        const uint64_t part = std::min(bytes - done, m_Map.PieceBytes - start);
        ReadPiece(caller, index, target + done, part, start);
        done += part;
    }
    return bytes;
}

/** Fills the target; what the piece doesn't hold are zeros. */
void OpenInode::ReadPiece(const Caller &caller, const uint64_t index, char *target,
                          const size_t most, const uint64_t offset)
{
    size_t have = 0;
    if (index < m_Map.Pieces.size() && m_Map.Pieces[index].Version != 0)
    {
        const Piece &piece = m_Map.Pieces[index];
        const size_t held = std::min<uint64_t>(most, piece.Bytes - std::min(piece.Bytes, offset));
        for (uint64_t replica = 0; held > 0; ++replica)
        {
            try
            {
                WaitUntilReady(caller, index, offset, held); // then it is there, too
                have = FileFor(index, replica)->Read(caller, target, held, offset);
                if (have < held)
                {
                    throw Errno(ENOENT); // a copy of an older, shorter version
                }
                break;
            }
            catch (const Errno &)
            {
                std::atomic_store(&m_Map.Pieces[index].File, std::shared_ptr<PieceFile>());
                if (replica + 1 >= m_Map.Replicas)
                {
                    throw;
                }
            }
        }
    }
    std::memset(target + have, 0, most - have);
}

/** Opens a piece where it is not open yet. Several readers may do it at once: each gets a file. */
std::shared_ptr<PieceFile> OpenInode::FileFor(const uint64_t index, const uint64_t replica)
{
    Piece &piece = m_Map.Pieces[index];
    if (replica == 0)
    {
        if (std::shared_ptr<PieceFile> file = std::atomic_load(&piece.File))
        {
            return file;
        }
    }
    const std::shared_ptr<Ionode> node = m_Volume.Nodes().At(m_Map.NodeOf(index, replica));
    std::shared_ptr<PieceFile> file = node->Open(KeyOf(piece.Version, index));
    if (replica == 0)
    {
        std::atomic_store(&piece.File, file);
    }
    return file;
}

/** Who reads a cold file on its own host asks first whether the bytes have come. */
void OpenInode::WaitUntilReady(const Caller &caller, const uint64_t index, const uint64_t offset,
                               const uint64_t bytes)
{
    if (!m_Map.IsCold || bytes == 0)
    {
        return;
    }
    const Piece &piece = m_Map.Pieces[index];
    const std::shared_ptr<Ionode> node = m_Volume.Nodes().At(m_Map.NodeOf(index));
    if (!node->IsLocal())
    {
        return; // it waits by itself
    }
    for (uint64_t part = offset / PartBytes; part <= (offset + bytes - 1) / PartBytes; ++part)
    {
        {
            const std::lock_guard<std::mutex> lock(m_ReadyMutex);
            if (m_Ready.count({index, part}) > 0)
            {
                continue;
            }
        }
        const uint64_t start = part * PartBytes;
        const uint64_t end = std::min(start + PartBytes, piece.Bytes);
        node->WaitUntilReady(caller, KeyOf(piece.Version, index), start, end - start);
        const std::lock_guard<std::mutex> lock(m_ReadyMutex);
        m_Ready.emplace(index, part);
    }
}

} // end namespace bbflow
