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

/** A connected stream socket. */
class Socket
{
public:
    /** Connects to a Unix socket. @throws ConnectionLost if nobody listens at the path */
    static Socket ToPath(const std::string &path, const Deadline &deadline);

    /** Connects to `host:port` over TCP; an IPv6 address stands in brackets.
     *  @throws ConnectionLost if nobody listens there or the deadline passes */
    static Socket ToAddress(const std::string &address, const Deadline &deadline);

    Socket(Socket &&other) noexcept;
    Socket &operator=(Socket &&other) = delete;
    ~Socket();

    /** Sends two parts one behind the other, without joining them in memory first.
     *  @throws ConnectionLost if the other side is gone or takes nothing for a minute */
    void Send(std::string_view head, std::string_view tail = {});

    /** Waits for bytes without burning CPU; gives how many came, 0 if the deadline passed.
     *  @throws ConnectionLost if the other side is gone */
    size_t Receive(char *target, size_t most, const Deadline &deadline);

    /** Path or address of the other side. */
    const std::string &Peer() const { return m_Peer; }

    /** The descriptor, for TLS on top of it. */
    int Descriptor() const { return m_Descriptor; }

private:
    int m_Descriptor;
    std::string m_Peer;

    Socket(int family, std::string peer);
    [[noreturn]] void ThrowLost(int error) const;
};

} // end namespace bbflow
