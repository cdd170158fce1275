#include "Channel.h"

#include "Checksum.h"
#include "Frame.h"

#include <algorithm>
#include <cstring>

namespace bbflow
{

Channel::Channel(std::unique_ptr<Wire> wire)
: m_Wire(std::move(wire)), m_Sent(std::make_unique<Checksum>()),
  m_Come(std::make_unique<Checksum>())
{
}

void Channel::SealWith(std::unique_ptr<bbflow::Seal> sent, std::unique_ptr<bbflow::Seal> come)
{
    m_Sent = std::move(sent);
    m_Come = std::move(come);
}

void Channel::Send(const Value &message) { m_Wire->Send(EncodeFrame(message, *m_Sent), {}); }

void Channel::SendRaw(Value::Map message, const std::string_view raw)
{
    message.emplace_back("check", Value::Binary{m_Sent->OfRaw(raw)});
    m_Wire->Send(EncodeFrame(message, *m_Sent), raw);
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
            if (std::optional<Value> message = TakeMessage(m_Received, mostBytes, *m_Come))
            {
                return message;
            }
        }
        catch (const std::runtime_error &error)
        {
            // Where the next frame begins can't be known any more: only a new connection helps.
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

bool Channel::ReceiveRaw(const Value &reply, char *target, const size_t bytes,
                         const Deadline &deadline)
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
    return AreEqual(m_Come->OfRaw({target, bytes}), reply.BytesAt("check"));
}

} // end namespace bbflow
