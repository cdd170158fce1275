#include "Layout.h"

#include <limits>
#include <stdexcept>

namespace bbflow
{

namespace
{

/** Numbers that are added and divided by must allow it. */
void Check(const Layout &layout, const bool isWritten)
{
    const uint64_t most = std::numeric_limits<int64_t>::max();
    bool needsNodes = isWritten;
    for (const Piece &piece : layout.Pieces)
    {
        needsNodes = needsNodes || piece.Version != 0;
    }
    if (layout.Size > most || layout.PieceBytes == 0 || layout.PieceBytes > most ||
        layout.Replicas == 0 || (needsNodes && layout.Ring.empty()))
    {
        throw std::runtime_error(
            "bbflow: a master says where a file lies, and no file can lie so: " +
            std::to_string(layout.Size) + " bytes in pieces of " +
            std::to_string(layout.PieceBytes) + " bytes on " + std::to_string(layout.Ring.size()) +
            " nodes, each on " + std::to_string(layout.Replicas) + " of them");
    }
}

} // end empty namespace

Layout LayoutFrom(const Value &reply)
{
    Layout layout;
    for (const Value &item : reply.ArrayAt("pieces"))
    {
        Piece piece;
        piece.Version = item.Items().at(0).AsUnsigned();
        piece.Bytes = piece.Committed = item.Items().at(1).AsUnsigned();
        layout.Pieces.push_back(std::move(piece));
    }
    for (const Value &node : reply.ArrayAt("ring"))
    {
        layout.Ring.push_back(node.Text());
    }
    layout.Size = reply.Find("attr")->UnsignedAt("size");
    layout.PieceBytes = reply.UnsignedAt("piece_bytes");
    layout.Replicas = reply.UnsignedAt("replicas");
    layout.IsCold = reply.BoolAt("cold");
    Check(layout, reply.Find("version") != nullptr);
    return layout;
}

} // end namespace bbflow
