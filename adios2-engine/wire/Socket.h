#pragma once

#include "Wire.h"

#include <memory>

namespace bbflow
{

/** A connected stream socket. */
class Socket final : public Wire
{
public:
    /** Connects to a Unix socket. @throws ConnectionLost if nothing listens at the path */
    static std::unique_ptr<Socket> ToPath(const std::string &path, const Deadline &deadline);

    /** Connects to `host:port` over TCP; an IPv6 address stands in brackets.
     *  @throws ConnectionLost if nothing listens there or the deadline passes */
    static std::unique_ptr<Socket> ToAddress(const std::string &address, const Deadline &deadline);

    /** The host of `host:port`, without brackets. */
    static std::string HostOf(const std::string &address);

    ~Socket() override;
    Socket(const Socket &) = delete;
    Socket &operator=(const Socket &) = delete;

    void Send(std::string_view head, std::string_view tail) override;
    size_t Receive(char *target, size_t most, const Deadline &deadline) override;
    const std::string &Peer() const override { return m_Peer; }
    int Descriptor() const override { return m_Descriptor; }

private:
    int m_Descriptor;
    std::string m_Peer;

    Socket(int family, std::string peer);
    [[noreturn]] void ThrowLost(int error) const;
};

} // end namespace bbflow
