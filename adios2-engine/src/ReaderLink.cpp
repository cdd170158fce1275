#include "ReaderLink.h"

#include "PoolFile.h"

#include <algorithm>
#include <deque>
#include <poll.h>
#include <stdexcept>

namespace bbflow
{

namespace
{

/** How long a node may wait for a change before it answers anyway. */
constexpr double NewsSecs = 60.0;

/** How many steps a node tells of at once. */
constexpr size_t NewsLimit = 256;

/** What is got at once: it stays in the caches while it is summed up. */
constexpr size_t PartBytes = size_t{4} << 20;
constexpr size_t PartsAhead = 2;

/** How often the same bytes may arrive damaged. */
constexpr int MostTries = 5;

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
                               {"limit", uint64_t{NewsLimit}},
                               {"extremes", true}});
        m_IsAsked = true;
    }
}

std::optional<News> ReaderLink::TakeNews()
{
    std::optional<Value> reply = m_News.TryReply(After(0.0));
    if (!reply)
    {
        return std::nullopt;
    }
    m_IsAsked = false;
    std::vector<StepPart> steps = m_Steps.Take(*reply);
    return News{std::move(*reply), std::move(steps)};
}

bool ReaderLink::IsBroken() const
{
    pollfd requests{m_Requests.Descriptor(), POLLIN | POLLRDHUP, 0};
    return poll(&requests, 1, 0) > 0 && (requests.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Value ReaderLink::Request(const Value &message)
{
    Tell(message);
    // Before it come the replies to what was only told.
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

const char *ReaderLink::InPool(const size_t offset, const size_t bytes) const
{
    if (!m_Pool)
    {
        return nullptr;
    }
    if (!IsPoolAt(m_Pool->Path(), m_Pool->Status()) || !HasPages(m_Pool->Path()))
    {
        ThrowPoolLost(m_Pool->Path());
    }
    return m_Pool->At(offset, bytes);
}

void ReaderLink::Fetch(const int64_t step, const size_t offset, const size_t bytes, char *target)
{
    while (m_Unread > 0)
    {
        Reply();
    }
    // Parts are asked for ahead: the node sums the next one up while the last one is on its way.
    std::deque<Part> asked;
    for (size_t next = 0; next < bytes || !asked.empty();)
    {
        while (next < bytes && asked.size() < PartsAhead)
        {
            asked.push_back({offset + next, std::min(bytes - next, PartBytes), target + next, 1});
            Ask(step, asked.back());
            next += asked.back().Bytes;
        }
        Part part = asked.front();
        asked.pop_front();
        if (!Receive(part))
        {
            ++part.Tries;
            Ask(step, part);
            asked.push_back(part);
        }
    }
}

void ReaderLink::Ask(const int64_t step, const Part &part)
{
    if (part.Tries > MostTries)
    {
        throw std::runtime_error("bbflow: " + std::to_string(part.Bytes) + " bytes from " +
                                 m_Requests.Peer() + " arrived damaged " +
                                 std::to_string(MostTries) +
                                 " times: the network or the memory of one of the hosts is broken");
    }
    Tell(Value::Map{{"op", "get"},
                    {"step", step},
                    {"offset", uint64_t{part.Offset}},
                    {"bytes", uint64_t{part.Bytes}}});
}

bool ReaderLink::Receive(const Part &part)
{
    const Value reply = Reply();
    if (reply.UnsignedAt("bytes") != part.Bytes)
    {
        throw ConnectionLost("bbflow: " + m_Requests.Peer() + " sent another number of bytes");
    }
    return m_Requests.ReceiveRaw(reply, part.Target, part.Bytes, After(Channel::ReplySecs));
}

} // end namespace bbflow
