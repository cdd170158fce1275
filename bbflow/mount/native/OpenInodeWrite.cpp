#include "OpenInode.h"
#include "Patience.h"

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

OpenInode::Way OpenInode::WayTo(const Piece &piece, const uint64_t offset,
                                const uint64_t bytes) const
{
    if (piece.Version == m_Layout.Version)
    {
        // Nobody else reads a version before it is committed.
        return Way::InPlace;
    }
    const bool isReplaced = offset == 0 && bytes >= piece.Bytes;
    if (piece.Version == 0 || piece.Bytes == 0 || isReplaced)
    {
        return Way::New;
    }
    const bool isLast = &piece == &m_Layout.Pieces.back();
    // Behind what is committed nobody reads: these bytes may be written where they are.
    const bool isWhole = piece.Bytes >= piece.Committed; // else others may still read the rest
    return isLast && m_Layout.MayAppend && isWhole && offset >= piece.Bytes ? Way::Append
                                                                            : Way::Copy;
}

/** Makes a piece fit to be written to. Gives the room that it lacks, and where, if it does. */
std::optional<OpenInode::Lack> OpenInode::TryPrepare(const Caller &caller, const uint64_t index,
                                                     const uint64_t offset, const uint64_t bytes)
{
    const size_t pieces = m_Layout.Pieces.size();
    m_Layout.Pieces.resize(std::max<size_t>(pieces, index + 1));
    Piece &piece = m_Layout.Pieces[index];
    if (piece.Version != 0)
    {
        WaitUntilReady(caller, index, 0, piece.Bytes);
    }
    const Way way = WayTo(piece, offset, bytes);
    const bool isNew = way == Way::New || way == Way::Copy;
    const uint64_t before = isNew ? 0 : PagesOf(piece.Bytes);
    const uint64_t kept = way == Way::New ? 0 : piece.Bytes;
    const uint64_t more = PagesOf(std::max(kept, offset + bytes)) - before;
    if (more > 0)
    {
        if (const auto node = m_Volume.Room().TrySpend(m_Layout.NodesOf(index), more))
        {
            m_Layout.Pieces.resize(pieces);
            return Lack{*node, more};
        }
        piece.Spent += more;
    }
    if (isNew)
    {
        Renew(caller, index, way);
    }
    else if (way == Way::Append && !piece.IsCut)
    {
        FileFor(index, 0)->Cut(caller, piece.Bytes);
        piece.IsCut = true;
    }
    return std::nullopt;
}

/** Gives a piece a file of this client's version. */
void OpenInode::Renew(const Caller &caller, const uint64_t index, const Way way)
{
    Piece &piece = m_Layout.Pieces[index];
    const std::shared_ptr<Ionode> node = m_Volume.Nodes().At(m_Layout.NodeOf(index));
    const std::string key = KeyOf(m_Layout.Version, index);
    piece.File = way == Way::Copy
                     ? node->Copy(caller, key, KeyOf(piece.Version, index), piece.Bytes)
                     : node->Make(caller, key);
    piece.Bytes = way == Way::Copy ? piece.Bytes : 0;
    piece.Version = m_Layout.Version;
    piece.Committed = 0;
    piece.IsCut = true;
}

/** Writes what of some bytes belongs into one piece. Which one is only known while nobody replaces
 *  the layout.
 *  @param written gets how many they are
 *  @return the room that it lacks, and where, if it does */
std::optional<OpenInode::Lack> OpenInode::TryWritePart(const Caller &caller,
                                                       const std::string_view all,
                                                       const uint64_t from, uint64_t &written)
{
    const Writing lock(m_Mutex);
    CheckGeneration();
    const uint64_t index = from / m_Layout.PieceBytes, offset = from % m_Layout.PieceBytes;
    const std::string_view bytes = all.substr(0, m_Layout.PieceBytes - offset);
    const uint64_t spent = index < m_Layout.Pieces.size() ? m_Layout.Pieces[index].Spent : 0;
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
        Piece &piece = m_Layout.Pieces[index];
        m_Volume.Room().GiveBack(m_Layout.NodesOf(index), piece.Spent - spent);
        piece.Spent = spent; // who tries again takes it again
        throw;
    }
    Piece &piece = m_Layout.Pieces[index];
    piece.Bytes = std::max(piece.Bytes, offset + bytes.size());
    m_Layout.Size = std::max(m_Layout.Size, index * m_Layout.PieceBytes + piece.Bytes);
    MarkDirty();
    m_Grown.notify_all();
    written = bytes.size();
    return std::nullopt;
}

/** Gives how many of the bytes were written: those of one piece. */
uint64_t OpenInode::WritePart(const Caller &caller, const std::string_view bytes,
                              const uint64_t offset)
{
    uint64_t written = 0;
    while (const std::optional<Lack> lack = TryWritePart(caller, bytes, offset, written))
    {
        m_Volume.WaitForRoom(caller, lack->Node, lack->Bytes);
    }
    return written;
}

void OpenInode::Write(const Caller &caller, const std::string_view bytes, const uint64_t offset)
{
    CheckSize(offset + bytes.size());
    Patience patience(m_Volume.Link().Patience());
    for (uint64_t done = 0; done < bytes.size();)
    {
        try
        {
            done += WritePart(caller, bytes.substr(done), offset + done);
        }
        catch (const Errno &error)
        {
            patience.WaitFor(error, caller);
        }
    }
}

uint64_t OpenInode::Append(const Caller &caller, const std::string_view bytes,
                           const uint64_t offset)
{
    uint64_t end = 0;
    {
        std::unique_lock<std::shared_mutex> lock(m_Mutex);
        // Part of a large append may have overtaken the one before it; else the file was longer.
        m_Grown.wait_for(lock, PartsTime, [&] { return m_Layout.Size >= offset; });
        end = m_Layout.Size;
    }
    Write(caller, bytes, end); // the kernel lets one program append at a time
    return end;
}

bool OpenInode::TryTruncate(const Caller &caller, const uint64_t size)
{
    CheckSize(size);
    const Writing lock(m_Mutex);
    const uint64_t index = size / m_Layout.PieceBytes;
    const uint64_t rest = size % m_Layout.PieceBytes;
    const size_t kept = index + (rest > 0 ? 1 : 0);
    if (m_Writers.empty())
    {
        return false;
    }
    CheckGeneration();
    std::vector<Piece> &pieces = m_Layout.Pieces;
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
        m_Volume.Room().GiveBack(m_Layout.NodesOf(i), pieces[i].Spent);
    }
    pieces.resize(std::min(kept, pieces.size()));
    m_Layout.Size = size;
    MarkDirty();
    return true;
}

Value::Array OpenInode::PiecesForCommit() const
{
    Value::Array list;
    for (const Piece &piece : m_Layout.Pieces)
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
    const uint64_t pieces = (m_Layout.Size + m_Layout.PieceBytes - 1) / m_Layout.PieceBytes;
    m_Layout.Pieces.resize(std::min<size_t>(m_Layout.Pieces.size(), pieces));
    int64_t modified = 0;
    {
        const std::lock_guard<std::mutex> shown(m_ShownMutex);
        modified = int64_t{m_Shown.Time.tv_sec} * 1000000000 + m_Shown.Time.tv_nsec;
    }
    const Value reply = m_Volume.Ask(caller, {{"op", "commit"},
                                              {"handle", m_Writers.front()},
                                              {"size", m_Layout.Size},
                                              {"pieces", PiecesForCommit()},
                                              {"mtime_ns", modified},
                                              {"sync", isSync}});
    m_Layout.Version = reply.UnsignedAt("version");
    m_Layout.MayAppend = reply.BoolAt("append");
    for (size_t i = 0; i < m_Layout.Pieces.size(); ++i)
    {
        Piece &piece = m_Layout.Pieces[i];
        const uint64_t cost =
            PagesOf(piece.Bytes) - std::min(PagesOf(piece.Committed), PagesOf(piece.Bytes));
        m_Volume.Room().Commit(m_Layout.NodesOf(i), std::min(cost, piece.Spent));
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
    for (size_t i = 0; i < m_Layout.Pieces.size(); ++i)
    {
        m_Volume.Room().GiveBack(m_Layout.NodesOf(i), m_Layout.Pieces[i].Spent);
        m_Layout.Pieces[i].Spent = 0;
    }
}

} // end namespace bbflow
