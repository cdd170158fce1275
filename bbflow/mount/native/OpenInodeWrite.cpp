#include "OpenInode.h"

#include "Errno.h"

#include <algorithm>
#include <iostream>
#include <utility>

namespace bbflow
{

namespace
{

/** The kernel sends one append in parts if it is large; they come within this time. */
constexpr std::chrono::milliseconds PartsTime{20};

/** @throws Errno if a file can't be so large */
void CheckSize(const uint64_t bytes)
{
    if (bytes > MostFileBytes)
    {
        throw Errno(EFBIG);
    }
}

} // end anonymous namespace

std::optional<int64_t> OpenInode::ShareWriting(const Caller &caller)
{
    FileLock::Alone lock = m_Lock.HaveAlone(caller);
    for (const uint64_t asked = m_Asked; m_IsAsking;)
    {
        m_Lock.Wait(lock, caller, FileLock::InterruptTime, [this] { return !m_IsAsking; });
        if (m_Asked > asked + 1 && m_Refusal == EBUSY)
        {
            throw Errno(EBUSY); // who asked after this one came has waited for it, too
        }
        if (caller.IsInterrupted)
        {
            throw Errno(EINTR);
        }
    }
    if (m_Writers.empty() || m_Generation != m_Volume.Link().Generation())
    {
        m_IsAsking = true;
        return std::nullopt;
    }
    m_Writers.push_back(m_Writers.front());
    m_IsClosing = false;
    return m_Writers.front();
}

void OpenInode::EndAsking(const int error)
{
    m_Refusal = error;
    ++m_Asked;
    m_IsAsking = false;
    m_Lock.Note();
}

OpenInode::WriteMode OpenInode::ModeOf(const uint64_t index, const uint64_t offset,
                                       const uint64_t bytes) const
{
    const Piece piece = index < m_Map.Pieces.size() ? m_Map.Pieces[index] : Piece{};
    if (piece.Version == m_Map.Version)
    {
        // No one else reads a version before it is committed.
        return WriteMode::InPlace;
    }
    const bool isReplaced = offset == 0 && bytes >= piece.Bytes;
    if (piece.Version == 0 || piece.Bytes == 0 || isReplaced)
    {
        return WriteMode::New;
    }
    const bool isLast = index + 1 == m_Map.Pieces.size();
    // What lies behind the committed bytes isn't read: these bytes may be written where they are.
    const bool isWhole = piece.Bytes >= piece.Committed; // else others may still read the rest
    return isLast && m_Map.MayAppend && isWhole && offset >= piece.Bytes ? WriteMode::Append
                                                                         : WriteMode::Copy;
}

/** Makes a piece fit to be written to: its file is of this client's version, or ends where others
 *  stop to read. The map's own piece stays as it is until the bytes are there. */
void OpenInode::Prepare(const Caller &caller, const uint64_t index, const WriteMode mode,
                        Piece &piece)
{
    if (m_HasFailed)
    {
        // Its node may be had by messages until now, and by its files from now on.
        m_Volume.Nodes().At(m_Map.NodeOf(index))->Settle();
    }
    if (mode == WriteMode::InPlace || mode == WriteMode::Append)
    {
        piece.File = FileFor(index, 0);
        if (!piece.IsCut)
        {
            piece.File->Cut(caller, piece.Bytes);
            piece.IsCut = true;
        }
        return;
    }
    const std::shared_ptr<Ionode> node = m_Volume.Nodes().At(m_Map.NodeOf(index));
    const std::string key = KeyOf(m_Map.Version, index), old = KeyOf(piece.Version, index);
    piece.Bytes = mode == WriteMode::Copy ? piece.Bytes : 0;
    piece.File = mode == WriteMode::Copy ? node->Copy(caller, key, old, piece.Bytes)
                                         : node->Make(caller, key);
    piece.Version = m_Map.Version;
    piece.Committed = 0;
    piece.IsCut = true;
}

/** Holds the file for a change, once it is known which of its bytes others may have. */
FileLock::Alone OpenInode::LockToChange(const Caller &caller)
{
    FileLock::Alone lock = m_Lock.HaveAlone(caller);
    while (m_IsUnsure)
    {
        lock.unlock();
        Commit(caller, CommitFor::Change);
        lock = m_Lock.HaveAlone(caller);
    }
    return lock;
}

std::optional<Lack> OpenInode::TryWritePart(const Caller &caller, const std::string_view all,
                                            const uint64_t from, uint64_t &done)
{
    CheckSize(from + all.size());
    const FileLock::Alone lock =
        LockToChange(caller); // while the map isn't replaced, it is this piece
    CheckGeneration();
    const uint64_t index = from / m_Map.PieceBytes, offset = from % m_Map.PieceBytes;
    const std::string_view bytes = all.substr(0, m_Map.PieceBytes - offset);
    std::vector<Piece> &pieces = m_Map.Pieces;
    Piece piece = index < pieces.size() ? pieces[index] : Piece{};
    WaitUntilReady(caller, index, 0, piece.Bytes);
    const WriteMode mode = ModeOf(index, offset, bytes.size());
    const bool isNew = mode == WriteMode::New || mode == WriteMode::Copy;
    const uint64_t kept = mode == WriteMode::New ? 0 : piece.Bytes;
    const uint64_t end = std::max(kept, offset + bytes.size());
    const uint64_t more = PagesOf(end) - (isNew ? 0 : PagesOf(kept));
    const std::vector<std::string> nodes = m_Map.NodesOf(index);
    if (const std::optional<Lack> lack = m_Volume.Room().TrySpend(nodes, more))
    {
        return lack;
    }
    try
    {
        Prepare(caller, index, mode, piece);
        piece.File->Write(caller, bytes, offset);
    }
    catch (const Errno &error)
    {
        Undo(caller, index, piece);
        m_Volume.Room().GiveBack(nodes, more);
        if (error.Number() == ENOENT)
        {
            throw Errno(EIO); // the file is there, but its node has lost this piece
        }
        throw;
    }
    piece.Bytes = end;
    piece.Spent += more;
    pieces.resize(std::max<size_t>(pieces.size(), index + 1));
    pieces[index] = std::move(piece);
    m_Map.Size = std::max(m_Map.Size, from + bytes.size());
    MarkDirty();
    done += bytes.size();
    return std::nullopt;
}

/** With the map as it is now. */
void OpenInode::MarkDirty()
{
    if (!m_IsDirty)
    {
        m_Volume.NotePages(m_Id, m_Number, std::nullopt); // it may end without a commit
    }
    m_IsDirty = true;
    m_IsClosing = false;
    const std::lock_guard<std::mutex> lock(m_ShownMutex);
    m_Shown.Size = m_Map.Size;
    clock_gettime(CLOCK_REALTIME, &m_Shown.Time);
}

/** Ends a piece's file there, so that its memory is free when its room is.
 *  @return false if that fails: then it is cut before it is written to again */
bool OpenInode::TryCut(const Caller &caller, const Piece &piece, const uint64_t bytes)
{
    try
    {
        if (piece.File)
        {
            piece.File->Cut(caller, bytes);
        }
        return static_cast<bool>(piece.File);
    }
    catch (const Errno &)
    {
        m_HasFailed = true;
        return false;
    }
}

/** A write into a piece has failed: what came of it is behind the bytes that count, or in a file
 *  that isn't the map's. */
void OpenInode::Undo(const Caller &caller, const uint64_t index, const Piece &piece)
{
    m_HasFailed = true;
    Piece *const kept = index < m_Map.Pieces.size() ? &m_Map.Pieces[index] : nullptr;
    if (kept != nullptr && kept->Version == piece.Version)
    {
        kept->IsCut = piece.IsCut && TryCut(caller, *kept, kept->Bytes);
        if (!kept->IsCut)
        {
            kept->File.reset(); // its node may come back elsewhere
        }
    }
    else if (piece.Version == m_Map.Version)
    {
        TryCut(caller, piece, 0);
    }
}

uint64_t OpenInode::EndFor(const Caller &caller, const uint64_t offset)
{
    FileLock::Alone lock = m_Lock.HaveAlone(caller);
    // Part of a large append may have overtaken the one before it; else the file was longer.
    m_Lock.Wait(lock, caller, PartsTime, [&] { return m_Map.Size >= offset; });
    return m_Map.Size;
}

bool OpenInode::TryTruncate(const Caller &caller, const uint64_t size)
{
    CheckSize(size);
    FileLock::Alone lock = LockToChange(caller);
    const uint64_t index = size / m_Map.PieceBytes;
    const uint64_t rest = size % m_Map.PieceBytes;
    const size_t kept = index + (rest > 0 ? 1 : 0);
    if (m_Writers.empty())
    {
        return false;
    }
    CheckGeneration();
    std::vector<Piece> &pieces = m_Map.Pieces;
    if (rest > 0 && index < pieces.size() && pieces[index].Bytes > rest)
    {
        Piece &piece = pieces[index];
        piece.IsCut = piece.IsCut && rest >= piece.Committed && TryCut(caller, piece, rest);
        piece.Bytes = rest;
    }
    for (size_t i = kept; i < pieces.size(); ++i)
    {
        if (pieces[i].Version == m_Map.Version)
        {
            TryCut(caller, pieces[i], 0);
        }
        m_Volume.Room().GiveBack(m_Map.NodesOf(i), pieces[i].Spent);
    }
    pieces.resize(std::min(kept, pieces.size()));
    m_Map.Size = size;
    MarkDirty();
    if (m_IsRefused && pieces.empty())
    {
        lock.unlock();
        Commit(caller, CommitFor::Change); // what is written from now on has another version
    }
    return true;
}

/** Refuses to commit what has gone from this host meanwhile: who reads would get EIO.
 *  What its master learns of by itself is a node that has lost all. */
void OpenInode::RequireWritten()
{
    for (const Piece &piece : m_Map.Pieces)
    {
        try
        {
            if (piece.File && (piece.Version == m_Map.Version || piece.Bytes != piece.Committed))
            {
                piece.File->Require(piece.Bytes);
            }
        }
        catch (const Errno &)
        {
            m_IsRefused = true;
            std::cerr << "bbflow-mount: a piece of file " << m_Id
                      << " has gone from its node before it was closed: write it again"
                      << std::endl;
            throw;
        }
    }
}

Value::Array OpenInode::PiecesForCommit() const
{
    Value::Array list;
    for (const Piece &piece : m_Map.Pieces)
    {
        list.push_back(Value::Array{piece.Version, piece.Bytes});
    }
    return list;
}

/** Has no request left that could still change a piece that is written. */
void OpenInode::SettleNodes(const Caller &caller)
{
    Patience patience = m_Volume.Link().NewPatience();
    for (size_t i = 0; m_HasFailed && i < m_Map.Pieces.size();)
    {
        const Piece &piece = m_Map.Pieces[i];
        try
        {
            if (piece.Version == m_Map.Version || piece.Bytes != piece.Committed)
            {
                m_Volume.Nodes().At(m_Map.NodeOf(i))->Settle();
            }
            ++i;
        }
        catch (const Errno &error)
        {
            patience.WaitFor(error, caller);
        }
    }
}

Value OpenInode::AskToCommit(const Caller &caller, const CommitFor what)
{
    int64_t modified = 0;
    {
        const std::lock_guard<std::mutex> shown(m_ShownMutex);
        modified = int64_t{m_Shown.Time.tv_sec} * 1000000000 + m_Shown.Time.tv_nsec;
    }
    const bool wasUnsure = std::exchange(m_IsUnsure, true);
    try
    {
        Value reply = m_Volume.Link().Ask(caller, {{"op", "commit"},
                                                   {"handle", m_Writers.front()},
                                                   {"size", m_Map.Size},
                                                   {"pieces", PiecesForCommit()},
                                                   {"mtime_ns", modified},
                                                   {"sync", what == CommitFor::Sync}});
        m_IsUnsure = m_IsRefused = false;
        return reply;
    }
    catch (const Unanswered &)
    {
        throw;
    }
    catch (const Errno &)
    {
        m_IsUnsure = wasUnsure;
        m_IsRefused = true;
        throw;
    }
}

void OpenInode::Commit(const Caller &caller, const CommitFor what)
{
    const FileLock::Alone lock = m_Lock.HaveAlone(caller);
    m_IsClosing = m_IsClosing || what == CommitFor::Close;
    if (!m_IsDirty || m_Writers.empty())
    {
        return;
    }
    CheckGeneration();
    SettleNodes(caller);
    RequireWritten();
    const Value reply = AskToCommit(caller, what);
    m_Map.Version = reply.UnsignedAt("version");
    m_Map.MayAppend = reply.BoolAt("append");
    for (size_t i = 0; i < m_Map.Pieces.size(); ++i)
    {
        Piece &piece = m_Map.Pieces[i];
        const uint64_t cost =
            PagesOf(piece.Bytes) - std::min(PagesOf(piece.Committed), PagesOf(piece.Bytes));
        m_Volume.Room().Commit(m_Map.NodesOf(i), std::min(cost, piece.Spent));
        piece.Spent -= std::min(cost, piece.Spent);
        piece.Committed = piece.Bytes;
    }
    Settle();
    m_IsDirty = false;
    const Attr attr = AttrFrom(*reply.Find("attr"));
    m_Newest = attr.Version;
    m_Volume.Kept().Keep(attr, reply.UnsignedAt("seq")); // before it is shown no more as unwritten
    const std::lock_guard<std::mutex> shown(m_ShownMutex);
    m_Shown.Size.reset();
}

void OpenInode::CloseWriting(const Caller &caller, const int64_t handle)
{
    {
        const FileLock::Alone lock = m_Lock.HaveAlone(caller);
        if (std::count(m_Writers.begin(), m_Writers.end(), handle) > 1)
        {
            DropHandle(m_Writers, handle); // what others have written isn't closed
            return;
        }
    }
    try
    {
        Commit(caller, CommitFor::Close); // what was written by mmap(2) after the last close(2)
    }
    catch (...)
    {
        LeaveWriting(handle); // else the session would keep it from all other writers
        throw;
    }
    LeaveWriting(handle);
}

void OpenInode::LeaveWriting(const int64_t handle)
{
    const FileLock::Alone lock(m_Lock);
    DropHandle(m_Writers, handle);
    if (m_Writers.empty() && m_IsDirty)
    {
        LoseWritten();
    }
}

/** What was written and not committed went with the last handle for writing: who still reads opens
 *  it anew. */
void OpenInode::LoseWritten()
{
    Settle();
    m_IsDirty = false;
    m_IsUnsure = m_IsRefused = false;
    m_Committed.reset();
    m_Pages.reset();
    const std::lock_guard<std::mutex> lock(m_ShownMutex);
    m_Shown.Size.reset();
}

/** Room that was taken for the pieces, and isn't committed, is free again. */
void OpenInode::Settle()
{
    for (size_t i = 0; i < m_Map.Pieces.size(); ++i)
    {
        m_Volume.Room().GiveBack(m_Map.NodesOf(i), m_Map.Pieces[i].Spent);
        m_Map.Pieces[i].Spent = 0;
    }
}

} // end namespace bbflow
