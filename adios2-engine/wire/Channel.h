#pragma once

#include "Seal.h"
#include "Value.h"
#include "Wire.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace bbflow
{

/** Messages and raw bytes over a wire (FORMAT.md, "Frame"). */
class Channel
{
public:
    /** How long a reply may take that needs no room to be made. */
    static constexpr double ReplySecs = 60.0;

    explicit Channel(std::unique_ptr<Wire> wire);

    /** Seals what is sent, and expects what comes to be sealed, from now on. */
    void SealWith(std::unique_ptr<bbflow::Seal> sent, std::unique_ptr<bbflow::Seal> come);

    /** Sends one message.
     *  @throws ConnectionLost if the other side is gone */
    void Send(const Value &message);

    /** What seals raw bytes that go another way; they count among those that are sent. */
    std::string Seal(std::string_view raw) { return m_Sent->OfRaw(raw); }

    /** Sends one message with raw bytes behind it, and `check` in it, by which they are checked. */
    void SendRaw(Value::Map message, std::string_view raw);

    /** Waits for a message without burning CPU; nothing if the deadline passes first.
     *  @param mostBytes largest payload that is accepted
     *  @throws ConnectionLost if the other side is gone or what came is no message */
    std::optional<Value> Receive(const Deadline &deadline, uint32_t mostBytes);
    std::optional<Value> Receive(const Deadline &deadline);

    /** Waits for the reply to a request; nothing if the deadline passes first.
     *  @throws ConnectionLost if the other side is gone
     *  @throws Refused with the node's reason */
    std::optional<Value> TryReply(const Deadline &deadline);

    /** The same where no reply in time means that the other side is gone. */
    Value Reply(const Deadline &deadline);

    /** Receives the raw bytes behind a reply to where they belong; gives whether they are those
     * that were sent, as its `check` tells.
     *  @throws ConnectionLost if the other side is gone or the deadline passes */
    bool ReceiveRaw(const Value &reply, char *target, size_t bytes, const Deadline &deadline);

    /** Path or address of the other side. */
    const std::string &Peer() const { return m_Wire->Peer(); }

    /** The descriptor, to wait for several channels with poll(2). */
    int Descriptor() const { return m_Wire->Descriptor(); }

private:
    std::unique_ptr<Wire> m_Wire;
    std::unique_ptr<bbflow::Seal> m_Sent;
    std::unique_ptr<bbflow::Seal> m_Come;
    std::string m_Received;
};

} // end namespace bbflow
