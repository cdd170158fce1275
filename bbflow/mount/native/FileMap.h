#pragma once

#include "Ionode.h"

#include <algorithm>

namespace bbflow
{

/** One piece of a file as this client has it open (bbflow/files/FORMAT.md, "Versions and pieces").
 */
struct Piece
{
    /** 0: a hole. */
    uint64_t Version = 0;
    /** How many bytes count; what lies behind them reads as zeros. */
    uint64_t Bytes = 0;
    /** Of these bytes others may know: they stay as they are. */
    uint64_t Committed = 0;
    /** Whether the piece's file ends at Bytes, by this client's doing. */
    bool IsCut = false;
    /** Room that was taken for it since the last commit. */
    uint64_t Spent = 0;
    std::shared_ptr<PieceFile> File;
};

/** Which bytes a file has: other bytes have other versions, or another length. */
struct Content
{
    uint64_t Size = 0;
    std::vector<std::pair<uint64_t, uint64_t>> Pieces;

    bool operator==(const Content &other) const
    {
        return Size == other.Size && Pieces == other.Pieces;
    }
};

/** A file is never larger: EFBIG. */
constexpr uint64_t MostFileBytes = 5ULL << 40;

/** Where the bytes of a file are. */
struct FileMap
{
    /** The version to write to; 0 if the file isn't open for writing. */
    uint64_t Version = 0;
    uint64_t Size = 0;
    uint64_t PieceBytes = 1;
    std::vector<std::string> Ring;
    uint64_t Replicas = 1;
    bool IsCold = false;
    std::vector<Piece> Pieces;

    /** Whether the last piece may be written to behind its bytes, without a copy. */
    bool MayAppend = false;

    Content Bytes() const
    {
        Content content{Size, {}};
        for (const Piece &piece : Pieces)
        {
            content.Pieces.emplace_back(piece.Version, piece.Bytes);
        }
        return content;
    }

    /** The nodes that have a piece. */
    std::vector<std::string> NodesOf(const uint64_t index) const
    {
        std::vector<std::string> nodes;
        for (uint64_t replica = 0; replica < std::min<uint64_t>(Replicas, Ring.size()); ++replica)
        {
            nodes.push_back(NodeOf(index, replica));
        }
        return nodes;
    }

    /** The node to write a piece to; with `replica` another one that has it. */
    const std::string &NodeOf(const uint64_t index, const uint64_t replica = 0) const
    {
        return Ring.at((index + replica) % std::max<size_t>(Ring.size(), 1));
    }
};

/** What a master's reply to `open` or `create` says.
 *  @throws std::runtime_error if no file can lie so */
FileMap FileMapFrom(const Value &reply);

} // end namespace bbflow
