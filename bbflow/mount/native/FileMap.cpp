#include "FileMap.h"

#include <limits>
#include <stdexcept>

namespace bbflow
{

namespace
{

/** Numbers that are added and divided by must allow it. */
void Check(const FileMap &map, const bool isWritten)
{
    const uint64_t most = std::numeric_limits<int64_t>::max();
    bool needsNodes = isWritten;
    for (const Piece &piece : map.Pieces)
    {
        needsNodes = needsNodes || piece.Version != 0;
    }
    if (map.Size > most || map.PieceBytes == 0 || map.PieceBytes > most || map.Replicas == 0 ||
        (needsNodes && map.Ring.empty()))
    {
        throw std::runtime_error(
            "bbflow: a master says where a file lies, and no file can lie so: " +
            std::to_string(map.Size) + " bytes in pieces of " + std::to_string(map.PieceBytes) +
            " bytes on " + std::to_string(map.Ring.size()) + " nodes, each on " +
            std::to_string(map.Replicas) + " of them");
    }
}

} // end empty namespace

FileMap FileMapFrom(const Value &reply)
{
    FileMap map;
    for (const Value &item : reply.ArrayAt("pieces"))
    {
        Piece piece;
        piece.Version = item.Items().at(0).AsUnsigned();
        piece.Bytes = piece.Committed = item.Items().at(1).AsUnsigned();
        map.Pieces.push_back(std::move(piece));
    }
    for (const Value &node : reply.ArrayAt("ring"))
    {
        map.Ring.push_back(node.Text());
    }
    map.Size = reply.Find("attr")->UnsignedAt("size");
    map.PieceBytes = reply.UnsignedAt("piece_bytes");
    map.Replicas = reply.UnsignedAt("replicas");
    map.IsCold = reply.BoolAt("cold");
    Check(map, reply.Find("version") != nullptr);
    return map;
}

} // end namespace bbflow
