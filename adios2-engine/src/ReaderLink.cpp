#include "ReaderLink.h"

#include "Crc32c.h"

#include <algorithm>
#include <poll.h>
#include <stdexcept>

namespace bbflow
{

namespace
{

/** How long a node may wait for a change before it answers anyway. */
constexpr double NewsSecs = 60.0;

/** What is got at once; a frame's raw bytes may be four times as many. */
constexpr size_t FetchBytes = size_t{16} << 20;

constexpr int FetchTries = 3;

} // end empty namespace

ReaderLink::ReaderLink(const Node &node, const std::string &key, const Transport transport,
                       const Deadline &deadline)
: m_News(ConnectTo(node, key, transport, deadline)),
  m_Requests(ConnectTo(node, key, transport, deadline))
{
    if (WayTo(node, transport) == Transport::SharedMemory)
    {
        m_Pool = std::make_unique<MappedFile>(node.Directory + "/pool");
    }
}

void ReaderLink::AskForNews(const std::string &stream, const int64_t after, const int64_t change)
{
    if (!m_IsAsked)
    {
        m_News.Send(Value::Map{{"op", "watch"},
                               {"stream", stream},
                               {"after", after},
                               {"change", change},
                               {"timeout_s", NewsSecs},
                               {"limit", uint64_t{NewsLimit}}});
        m_IsAsked = true;
    }
}

std::optional<Value> ReaderLink::TakeNews()
{
    std::optional<Value> news = m_News.TryReply(After(0.0));
    if (news)
    {
        m_IsAsked = false;
    }
    return news;
}

bool ReaderLink::IsBroken() const
{
    pollfd requests{m_Requests.Descriptor(), POLLIN | POLLRDHUP, 0};
    return poll(&requests, 1, 0) > 0 && (requests.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Value ReaderLink::Request(const Value &message)
{
    Tell(message);
    while (m_Unread > 1)
    {
        Reply();
    }
    return Reply();
}

void ReaderLink::Tell(const Value &message)
{
    m_Requests.Send(message);
    ++m_Unread;
}

Value ReaderLink::Reply()
{
    --m_Unread;
    return m_Requests.Reply(After(Channel::ReplySecs));
}

void ReaderLink::Fetch(const int64_t step, const size_t offset, const size_t bytes, char *target)
{
    for (size_t done = 0; done < bytes;)
    {
        const size_t part = std::min(bytes - done, FetchBytes);
        int tries = 1;
        while (!TryFetch(step, offset + done, part, target + done))
        {
            if (++tries > FetchTries)
            {
                throw ConnectionLost("bbflow: bytes from " + m_Requests.Peer() +
                                     " were damaged on the way " + std::to_string(FetchTries) +
                                     " times");
            }
        }
        done += part;
    }
}

bool ReaderLink::TryFetch(const int64_t step, const size_t offset, const size_t bytes, char *target)
{
    const Value reply = Request(Value::Map{
        {"op", "get"}, {"step", step}, {"offset", uint64_t{offset}}, {"bytes", uint64_t{bytes}}});
    if (reply.UnsignedAt("bytes") != bytes)
    {
        throw ConnectionLost("bbflow: " + m_Requests.Peer() + " sent another number of bytes");
    }
    m_Requests.ReceiveRaw(target, bytes, After(Channel::ReplySecs));
    return Crc32c({target, bytes}) == reply.UnsignedAt("crc");
}

} // end namespace bbflow
