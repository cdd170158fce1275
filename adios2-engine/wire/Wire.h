#pragma once

#include "Deadline.h"

#include <stdexcept>
#include <string>
#include <string_view>

namespace bbflow
{

/** The other side can't be reached, or no longer: trying again may help. */
class ConnectionLost : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

/** The other side answers, but refuses: trying again doesn't help. */
class Refused : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

/** A connection that carries bytes. */
class Wire
{
public:
    virtual ~Wire() = default;

    /** Sends two parts one behind the other, without joining them in memory first.
     *  @throws ConnectionLost if the other side is gone or takes nothing for a minute */
    virtual void Send(std::string_view head, std::string_view tail) = 0;

    /** Waits for bytes without burning CPU; gives how many came, 0 if the deadline passed.
     *  @throws ConnectionLost if the other side is gone */
    virtual size_t Receive(char *target, size_t most, const Deadline &deadline) = 0;

    /** Path or address of the other side. */
    virtual const std::string &Peer() const = 0;

    /** The descriptor, to wait for several wires with poll(2). */
    virtual int Descriptor() const = 0;
};

} // end namespace bbflow
