#include "OpenInode.h"
#include "Patience.h"

#include <algorithm>
#include <sys/stat.h>

namespace bbflow
{

using Writing = std::unique_lock<std::shared_mutex>;

OpenInode::Way OpenInode::WayTo(const Piece &piece, const uint64_t offset,
                                const uint64_t bytes) const
{
    if (piece.Version == m_Layout.Version)
    {
        return Way::InPlace;
    }
    const bool isReplaced = offset == 0 && bytes >= piece.Bytes;
    if (piece.Version == 0 || piece.Bytes == 0 || isReplaced)
    {
        return Way::New;
    }
    // Others may still read what lies behind, where the file was made shorter.
    return offset >= piece.Bytes && (piece.IsCut || EndsAtBytes(piece)) ? Way::Append : Way::Copy;
}

/** Whether nothing lies behind the bytes that count, as far as that can be seen. */
bool OpenInode::EndsAtBytes(const Piece &piece) const
{
    struct stat local = {};
    if (piece.Bytes < piece.Committed)
    {
        return false;
    }
    return !piece.File || piece.File->Descriptor() < 0 ||
           (fstat(piece.File->Descriptor(), &local) == 0 &&
            static_cast<uint64_t>(local.st_size) == piece.Bytes);
}

/** Makes a piece fit to be written to, if there is room. Gives how much room it lacks otherwise. */
std::optional<uint64_t> OpenInode::TryPrepare(const Caller &caller, const uint64_t index,
                                              const uint64_t offset, const uint64_t bytes)
{
    if (index >= m_Layout.Pieces.size())
    {
        m_Layout.Pieces.resize(index + 1);
    }
    Piece *piece = &m_Layout.Pieces[index];
    if (piece->Version != 0)
    {
        FileFor(index, 0);
        WaitUntilReady(caller, index, 0, piece->Bytes);
    }
    const Way way = WayTo(*piece, offset, bytes);
    const bool isNew = way == Way::New || way == Way::Copy;
    const uint64_t before = isNew ? 0 : PagesOf(piece->Bytes);
    const uint64_t kept = way == Way::New ? 0 : piece->Bytes;
    const uint64_t after = PagesOf(std::max(kept, offset + bytes));
    const std::string &node = m_Layout.NodeOf(index);
    if (after > before && !m_Volume.Room().TrySpend(node, after - before))
    {
        return after - before;
    }
    piece->Node = node;
    piece->Spent += after - before;
    if (isNew)
    {
        Renew(caller, index, way);
    }
    else if (way == Way::Append && !piece->IsCut)
    {
        CutForAppending(caller, index);
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

void OpenInode::CutForAppending(const Caller &caller, const uint64_t index)
{
    Piece &piece = m_Layout.Pieces[index];
    FileFor(index, 0)->Cut(caller, piece.Bytes);
    piece.IsCut = true;
}

void OpenInode::WritePart(const Caller &caller, const uint64_t index, const std::string_view bytes,
                          const uint64_t offset)
{
    while (true)
    {
        std::string node;
        uint64_t lacking = 0;
        {
            const Writing lock(m_Mutex);
            CheckGeneration();
            if (const auto lacks = TryPrepare(caller, index, offset, bytes.size()))
            {
                node = m_Layout.NodeOf(index);
                lacking = *lacks;
            }
            else
            {
                Piece &piece = m_Layout.Pieces[index];
                FileFor(index, 0)->Write(caller, bytes, offset);
                piece.Bytes = std::max(piece.Bytes, offset + bytes.size());
                m_Layout.Size = std::max(m_Layout.Size, index * m_Layout.PieceBytes + piece.Bytes);
                MarkDirty();
                return;
            }
        }
        m_Volume.WaitForRoom(caller, node, lacking);
    }
}

void OpenInode::Write(const Caller &caller, const std::string_view bytes, const uint64_t offset)
{
    Patience patience(m_Volume.Link().Patience());
    for (uint64_t done = 0; done < bytes.size();)
    {
        const uint64_t index = (offset + done) / m_Layout.PieceBytes;
        const uint64_t start = (offset + done) % m_Layout.PieceBytes;
        const uint64_t part = std::min(bytes.size() - done, m_Layout.PieceBytes - start);
        try
        {
            WritePart(caller, index, bytes.substr(done, part), start);
            done += part;
        }
        catch (const Errno &error)
        {
            patience.WaitFor(error, caller);
        }
    }
}

void OpenInode::Truncate(const Caller &caller, const uint64_t size)
{
    const uint64_t index = size / m_Layout.PieceBytes;
    const uint64_t rest = size % m_Layout.PieceBytes;
    const size_t kept = index + (rest > 0 ? 1 : 0);
    const Writing lock(m_Mutex);
    CheckGeneration();
    std::vector<Piece> &pieces = m_Layout.Pieces;
    for (size_t i = kept; i < pieces.size(); ++i)
    {
        m_Volume.Room().Settle({{pieces[i].Node, pieces[i].Spent}});
    }
    pieces.resize(std::min(kept, pieces.size()));
    if (rest > 0 && index < pieces.size() && pieces[index].Bytes > rest)
    {
        Piece &piece = pieces[index];
        piece.IsCut = piece.IsCut && rest >= piece.Committed;
        if (piece.IsCut)
        {
            FileFor(index, 0)->Cut(caller, rest);
        }
        piece.Bytes = rest;
    }
    m_Layout.Size = size;
    MarkDirty();
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
    int64_t modified = 0;
    {
        const std::lock_guard<std::mutex> shown(m_ShownMutex);
        modified = int64_t{m_ShownTime.tv_sec} * 1000000000 + m_ShownTime.tv_nsec;
    }
    const Value reply = m_Volume.Ask(caller, {{"op", "commit"},
                                              {"handle", m_Writers.front()},
                                              {"size", m_Layout.Size},
                                              {"pieces", PiecesForCommit()},
                                              {"mtime_ns", modified},
                                              {"sync", isSync}});
    m_Layout.Version = reply.UnsignedAt("version");
    for (Piece &piece : m_Layout.Pieces)
    {
        // Behind its bytes a piece of the own old version may still be appended to.
        piece.Committed = piece.Bytes;
    }
    Settle();
    m_IsDirty = false;
    m_Volume.Kept().Keep(AttrFrom(*reply.Find("attr")), reply.UnsignedAt("seq"));
    const std::lock_guard<std::mutex> shown(m_ShownMutex);
    m_ShownSize.reset();
}

/** What was taken for the pieces is committed or void. */
void OpenInode::Settle()
{
    for (Piece &piece : m_Layout.Pieces)
    {
        if (piece.Spent > 0)
        {
            m_Volume.Room().Settle({{piece.Node, piece.Spent}});
            piece.Spent = 0;
        }
    }
}

} // end namespace bbflow
