#include "RemotePiece.h"

#include "Errno.h"

namespace bbflow
{

namespace
{

/** How often bytes are sent that arrive damaged. */
constexpr int SendTries = 3;

} // end empty namespace

size_t RemotePiece::Read(const Caller &caller, char *target, const size_t most,
                         const uint64_t offset)
{
    const Value request =
        Value::Map{{"op", "read"}, {"key", m_Key}, {"offset", offset}, {"bytes", uint64_t{most}}};
    return m_Node->Over(
        [&](Channel &channel)
        {
            const Value reply = Exchange(caller, channel, request);
            const uint64_t bytes = reply.UnsignedAt("bytes");
            if (bytes > most)
            {
                throw ConnectionLost("bbflow: " + channel.Peer() + " sends more than was asked");
            }
            if (!channel.ReceiveRaw(reply, target, bytes, After(Channel::ReplySecs)))
            {
                throw ConnectionLost("bbflow: bytes from " + channel.Peer() + " came damaged");
            }
            return size_t{bytes};
        });
}

void RemotePiece::Write(const Caller &caller, const std::string_view bytes, const uint64_t offset)
{
    const Value::Map request = {
        {"op", "write"}, {"key", m_Key}, {"offset", offset}, {"bytes", uint64_t{bytes.size()}}};
    for (int left = SendTries; left > 0; --left)
    {
        try
        {
            m_Node->Over(
                [&](Channel &channel)
                {
                    channel.SendRaw(request, bytes);
                    Await(caller, channel);
                    return bytes.size();
                });
            return;
        }
        catch (const Errno &error)
        {
            if (error.Number() != EBADMSG || left == 1)
            {
                throw Errno(error.Number() == EBADMSG ? EIO : error.Number());
            }
        }
    }
}

void RemotePiece::Cut(const Caller &caller, const uint64_t bytes)
{
    m_Node->Ask(caller, Value::Map{{"op", "cut"}, {"key", m_Key}, {"bytes", bytes}});
}

} // end namespace bbflow
