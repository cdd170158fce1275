#include "TcpLanding.h"

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

void TcpLanding::Land(const char *source, const size_t bytes, const size_t offset, Scan &scan)
{
    const size_t before = m_Unsynced.size();
    try
    {
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

void TcpLanding::Send(const Piece &piece)
{
    m_Channel->SendRaw({{"op", "data"},
                        {"offset", uint64_t{piece.Offset}},
                        {"bytes", uint64_t{piece.Bytes.size()}}},
                       piece.Bytes);
}

void TcpLanding::Sync()
{
    if (m_Unsynced.empty())
    {
        return;
    }
    std::vector<Piece> bad;
    for (int tries = 0; tries < MostTries; ++tries)
    {
        m_Channel->Send(Value::Map{{"op", "sync"}});
        bad = BadOnes(m_Channel->Reply(After(Channel::ReplySecs)));
        if (bad.empty())
        {
            m_Unsynced.clear();
            return;
        }
        std::for_each(bad.begin(), bad.end(), [this](const Piece &piece) { Send(piece); });
    }
    throw std::runtime_error("bbflow: " + std::to_string(bad.front().Bytes.size()) +
                             " bytes arrived damaged at " + m_Channel->Peer() + " " +
                             std::to_string(MostTries) +
                             " times: the network or the memory of one of the hosts is broken");
}

std::vector<TcpLanding::Piece> TcpLanding::BadOnes(const Value &reply) const
{
    std::vector<Piece> bad;
    for (const Value &offset : reply.ArrayAt("bad"))
    {
        const auto isIt = [&](const Piece &piece) { return piece.Offset == offset.AsUnsigned(); };
        const auto found = std::find_if(m_Unsynced.begin(), m_Unsynced.end(), isIt);
        if (found == m_Unsynced.end())
        {
            throw ConnectionLost("bbflow: " + m_Channel->Peer() + " asks for data never sent");
        }
        bad.push_back(*found);
    }
    return bad;
}

void TcpLanding::GoOn(Channel &channel)
{
    m_Channel = &channel;
    std::for_each(m_Unsynced.begin(), m_Unsynced.end(),
                  [this](const Piece &piece) { Send(piece); });
}

} // end namespace bbflow
