#include "OpenInode.h"

#include "Errno.h"

#include <algorithm>

namespace bbflow
{

using Writing = std::unique_lock<std::shared_mutex>;

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

OpenInode::WriteMode OpenInode::ModeOf(const Piece &piece, const uint64_t offset,
                                       const uint64_t bytes) const
{
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
    const bool isLast = &piece == &m_Map.Pieces.back();
    // What lies behind the committed bytes isn't read: these bytes may be written where they are.
    const bool isWhole = piece.Bytes >= piece.Committed; // else others may still read the rest
    return isLast && m_Map.MayAppend && isWhole && offset >= piece.Bytes ? WriteMode::Append
                                                                         : WriteMode::Copy;
}

/** Makes a piece fit to be written to. Gives the room that it lacks, and where, if it does. */
std::optional<Lack> OpenInode::TryPrepare(const Caller &caller, const uint64_t index,
                                          const uint64_t offset, const uint64_t bytes)
{
    const size_t pieces = m_Map.Pieces.size();
    m_Map.Pieces.resize(std::max<size_t>(pieces, index + 1));
    Piece &piece = m_Map.Pieces[index];
    if (piece.Version != 0)
    {
        WaitUntilReady(caller, index, 0, piece.Bytes);
    }
    const WriteMode mode = ModeOf(piece, offset, bytes);
    const bool isNew = mode == WriteMode::New || mode == WriteMode::Copy;
    const uint64_t before = isNew ? 0 : PagesOf(piece.Bytes);
    const uint64_t kept = mode == WriteMode::New ? 0 : piece.Bytes;
    const uint64_t more = PagesOf(std::max(kept, offset + bytes)) - before;
    if (more > 0)
    {
        if (const auto lack = m_Volume.Room().TrySpend(m_Map.NodesOf(index), more))
        {
            m_Map.Pieces.resize(pieces);
            return lack;
        }
        piece.Spent += more;
    }
    if (isNew)
    {
        Renew(caller, index, mode);
    }
    else if (mode == WriteMode::Append && !piece.IsCut)
    {
        FileFor(index, 0)->Cut(caller, piece.Bytes);
        piece.IsCut = true;
    }
    return std::nullopt;
}

/** Gives a piece a file of this client's version. */
void OpenInode::Renew(const Caller &caller, const uint64_t index, const WriteMode mode)
{
    Piece &piece = m_Map.Pieces[index];
    const std::shared_ptr<Ionode> node = m_Volume.Nodes().At(m_Map.NodeOf(index));
    const std::string key = KeyOf(m_Map.Version, index);
    piece.File = mode == WriteMode::Copy
                     ? node->Copy(caller, key, KeyOf(piece.Version, index), piece.Bytes)
                     : node->Make(caller, key);
    piece.Bytes = mode == WriteMode::Copy ? piece.Bytes : 0;
    piece.Version = m_Map.Version;
    piece.Committed = 0;
    piece.IsCut = true;
}

std::optional<Lack> OpenInode::TryWritePart(const Caller &caller, const std::string_view all,
                                            const uint64_t from, uint64_t &done)
{
    CheckSize(from + all.size());
    const Writing lock(m_Mutex); // which piece it is, is only known while the map isn't replaced
    CheckGeneration();
    const uint64_t index = from / m_Map.PieceBytes, offset = from % m_Map.PieceBytes;
    const std::string_view bytes = all.substr(0, m_Map.PieceBytes - offset);
    const bool isThere = index < m_Map.Pieces.size();
    const uint64_t spent = isThere ? m_Map.Pieces[index].Spent : 0;
    const uint64_t version = isThere ? m_Map.Pieces[index].Version : 0;
    try
    {
        if (const std::optional<Lack> lack = TryPrepare(caller, index, offset, bytes.size()))
        {
            return lack;
        }
        FileFor(index, 0)->Write(caller, bytes, offset);
    }
    catch (const Errno &)
    {
        m_HasFailed = true;
        Piece &piece = m_Map.Pieces[index];
        // A copy that was made stays, and is committed; who tries again takes the rest again.
        const uint64_t copied = piece.Version == version ? 0 : PagesOf(piece.Bytes);
        const uint64_t unspent = piece.Spent - spent - copied;
        m_Volume.Room().GiveBack(m_Map.NodesOf(index), unspent);
        piece.Spent -= unspent;
        throw;
    }
    Piece &piece = m_Map.Pieces[index];
    piece.Bytes = std::max(piece.Bytes, offset + bytes.size());
    m_Map.Size = std::max(m_Map.Size, index * m_Map.PieceBytes + piece.Bytes);
    MarkDirty();
    m_Grown.notify_all();
    done += bytes.size();
    return std::nullopt;
}

uint64_t OpenInode::EndFor(const uint64_t offset)
{
    Writing lock(m_Mutex);
    // Part of a large append may have overtaken the one before it; else the file was longer.
    m_Grown.wait_for(lock, PartsTime, [&] { return m_Map.Size >= offset; });
    return m_Map.Size;
}

bool OpenInode::TryTruncate(const Caller &caller, const uint64_t size)
{
    CheckSize(size);
    const Writing lock(m_Mutex);
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
        piece.IsCut = piece.IsCut && rest >= piece.Committed;
        if (piece.IsCut)
        {
            FileFor(index, 0)->Cut(caller, rest); // if it fails, all is as it was
        }
        piece.Bytes = rest;
    }
    for (size_t i = kept; i < pieces.size(); ++i)
    {
        m_Volume.Room().GiveBack(m_Map.NodesOf(i), pieces[i].Spent);
    }
    pieces.resize(std::min(kept, pieces.size()));
    m_Map.Size = size;
    MarkDirty();
    return true;
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

void OpenInode::Commit(const Caller &caller, const bool isSync)
{
    const Writing lock(m_Mutex);
    if (!m_IsDirty || m_Writers.empty())
    {
        return;
    }
    CheckGeneration();
    // A write that failed may have left a piece behind the end.
    const uint64_t pieces = (m_Map.Size + m_Map.PieceBytes - 1) / m_Map.PieceBytes;
    m_Map.Pieces.resize(std::min<size_t>(m_Map.Pieces.size(), pieces));
    int64_t modified = 0;
    {
        const std::lock_guard<std::mutex> shown(m_ShownMutex);
        modified = int64_t{m_Shown.Time.tv_sec} * 1000000000 + m_Shown.Time.tv_nsec;
    }
    const Value reply = m_Volume.Link().Ask(caller, {{"op", "commit"},
                                                     {"handle", m_Writers.front()},
                                                     {"size", m_Map.Size},
                                                     {"pieces", PiecesForCommit()},
                                                     {"mtime_ns", modified},
                                                     {"sync", isSync}});
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
