#pragma once

#include "Value.h"

#include <chrono>
#include <optional>
#include <string>

namespace bbflow
{

/** Until when to wait; nothing means for ever. */
using Deadline = std::optional<std::chrono::steady_clock::time_point>;

/** Gives the time point `seconds` from now; negative seconds mean for ever. */
Deadline After(double seconds);

/** A connection to the agent of a BB node, by its Unix socket. */
class Channel
{
public:
    /** @throws std::runtime_error if nobody listens at the path */
    explicit Channel(const std::string &path);
    ~Channel();
    Channel(const Channel &) = delete;
    Channel &operator=(const Channel &) = delete;

    /** Sends one message. @throws std::runtime_error if the agent is gone */
    void Send(const Value &message);

    /** Waits for a message without burning CPU; nothing if the deadline passes first.
     *  @throws std::runtime_error if the agent is gone */
    std::optional<Value> Receive(const Deadline &deadline);

private:
    int m_Socket;
    std::string m_Received;
};

} // end namespace bbflow
