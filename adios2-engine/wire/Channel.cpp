#include "Channel.h"

#include "Frame.h"

#include <algorithm>
#include <cstring>

namespace bbflow
{

void Channel::Send(const Value &message, const std::string_view raw)
{
    m_Wire->Send(EncodeFrame(message), raw);
}

std::optional<Value> Channel::Receive(const Deadline &deadline)
{
    return Receive(deadline, MaxPayloadBytes);
}

std::optional<Value> Channel::Receive(const Deadline &deadline, const uint32_t mostBytes)
{
    char buffer[16384];
    while (true)
    {
        try
        {
            if (std::optional<Value> message = TakeMessage(m_Received, mostBytes))
            {
                return message;
            }
        }
        catch (const std::runtime_error &error)
        {
            throw ConnectionLost(std::string(error.what()) + " (from " + Peer() + ")");
        }
        const size_t n = m_Wire->Receive(buffer, sizeof(buffer), deadline);
        if (n == 0)
        {
            return std::nullopt;
        }
        m_Received.append(buffer, n);
    }
}

std::optional<Value> Channel::TryReply(const Deadline &deadline)
{
    std::optional<Value> reply = Receive(deadline);
    if (reply && !reply->BoolAt("ok"))
    {
        throw Refused("bbflow: " + reply->StringAt("error"));
    }
    return reply;
}

Value Channel::Reply(const Deadline &deadline)
{
    std::optional<Value> reply = TryReply(deadline);
    if (!reply)
    {
        throw ConnectionLost("bbflow: the BB node's agent doesn't answer: " + Peer());
    }
    return std::move(*reply);
}

void Channel::ReceiveRaw(char *target, const size_t bytes, const Deadline &deadline)
{
    size_t have = std::min(bytes, m_Received.size());
    std::memcpy(target, m_Received.data(), have);
    m_Received.erase(0, have);
    while (have < bytes)
    {
        const size_t n = m_Wire->Receive(target + have, bytes - have, deadline);
        if (n == 0)
        {
            throw ConnectionLost("bbflow: " + Peer() + " sent " + std::to_string(have) +
                                 " of the " + std::to_string(bytes) + " bytes that it promised");
        }
        have += n;
    }
}

} // end namespace bbflow
