#include "RemoteLanding.h"

#include <algorithm>

namespace bbflow
{

namespace
{

/** A piece is looked at, summed up and sent while it is in the second cache. */
constexpr size_t PieceBytes = size_t{512} << 10;

/** How often the same bytes may arrive damaged. */
constexpr int MostTries = 5;

} // end empty namespace

void RemoteLanding::Land(const char *source, const size_t bytes, const size_t offset, Scan &scan)
{
    const size_t before = m_Unsynced.size();
    try
    {
        if (m_Route)
        {
            m_Route->Lend({source, bytes});
        }
        for (size_t i = 0; i < bytes; i += PieceBytes)
        {
            const std::string_view piece(source + i, std::min(PieceBytes, bytes - i));
            scan.See(piece.data(), piece.size());
            m_Unsynced.push_back({piece, offset + i});
            Send(m_Unsynced.back());
        }
    }
    catch (const ConnectionLost &)
    {
        m_Unsynced.resize(before); // the caller lands the whole block again
        throw;
    }
}

bool RemoteLanding::LandFromGpu(const std::string_view block, const size_t offset,
                                const ofi::Owner &gpu)
{
    if (!TakesGpus() || !m_Route->Lend(block, gpu))
    {
        return false;
    }
    for (size_t i = 0; i < block.size(); i += PieceBytes)
    {
        m_Route->Write(block.substr(i, PieceBytes), offset + i);
    }
    m_Route->Finish(); // nothing of it needs to be sent again
    return true;
}

void RemoteLanding::Send(Piece &piece)
{
    if (m_Route)
    {
        piece.Check = m_Route->HasChecks() ? m_Channel->Seal(piece.Bytes) : "";
        m_Route->Write(piece.Bytes, piece.Offset);
        return;
    }
    m_Channel->SendRaw({{"op", "data"},
                        {"offset", uint64_t{piece.Offset}},
                        {"bytes", uint64_t{piece.Bytes.size()}}},
                       piece.Bytes);
}

void RemoteLanding::SendAgain(Piece &piece)
{
    if (m_Route)
    {
        m_Route->Lend(piece.Bytes);
    }
    Send(piece);
}

/** Sends the node what has come by libfabric, and the seals to check it by. */
void RemoteLanding::FinishWrites()
{
    if (!m_Route)
    {
        return;
    }
    m_Route->Finish();
    for (Piece &piece : m_Unsynced)
    {
        if (!piece.Check.empty())
        {
            m_Channel->Send(Value::Map{{"op", "landed"},
                                       {"offset", uint64_t{piece.Offset}},
                                       {"bytes", uint64_t{piece.Bytes.size()}},
                                       {"check", Value::Binary{std::move(piece.Check)}}});
            piece.Check.clear();
        }
    }
}

void RemoteLanding::Sync()
{
    if (m_Unsynced.empty())
    {
        return;
    }
    size_t bytes = 0;
    for (int tries = 0; tries < MostTries; ++tries)
    {
        FinishWrites();
        m_Channel->Send(Value::Map{{"op", "sync"}});
        const std::vector<size_t> bad = BadOnes(m_Channel->Reply(After(Channel::ReplySecs)));
        if (bad.empty())
        {
            m_Unsynced.clear();
            return;
        }
        bytes = m_Unsynced[bad.front()].Bytes.size();
        std::for_each(bad.begin(), bad.end(), [this](const size_t i) { SendAgain(m_Unsynced[i]); });
    }
    throw std::runtime_error("bbflow: " + std::to_string(bytes) + " bytes arrived damaged at " +
                             m_Channel->Peer() + " " + std::to_string(MostTries) +
                             " times: the network or the memory of one of the hosts is broken");
}

std::vector<size_t> RemoteLanding::BadOnes(const Value &reply) const
{
    std::vector<size_t> bad;
    for (const Value &offset : reply.ArrayAt("bad"))
    {
        const auto isIt = [&](const Piece &piece) { return piece.Offset == offset.AsUnsigned(); };
        const auto found = std::find_if(m_Unsynced.begin(), m_Unsynced.end(), isIt);
        if (found == m_Unsynced.end())
        {
            throw ConnectionLost("bbflow: " + m_Channel->Peer() + " asks for data never sent");
        }
        bad.push_back(static_cast<size_t>(found - m_Unsynced.begin()));
    }
    std::sort(bad.begin(), bad.end()); // seals count in this order
    return bad;
}

void RemoteLanding::GoOn(Channel &channel, FabricRoute *route)
{
    m_Channel = &channel;
    m_Route = route;
    std::for_each(m_Unsynced.begin(), m_Unsynced.end(), [this](Piece &piece) { SendAgain(piece); });
}

} // end namespace bbflow
