#include "Socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace bbflow
{

namespace
{

/** How long a host may acknowledge nothing before it counts as gone. That of a process which is
 *  stopped does acknowledge, so TCP_USER_TIMEOUT won't do: it ends what a full window holds up. */
constexpr int SilenceSecs = 20;

/** How long the other side may take nothing of what it is sent. */
constexpr int StandstillSecs = 60;

/** How long nothing comes or goes before the host's silence is looked at. */
constexpr int LookSecs = 5;

void SetOption(const int descriptor, const int level, const int name, const int value)
{
    setsockopt(descriptor, level, name, &value, sizeof(value));
}

/** Bounds connect(2) and send(2). */
void LimitSending(const int descriptor, const int milliseconds)
{
    const timeval limit = {milliseconds / 1000, milliseconds % 1000 * 1000};
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/** Requests must not wait for each other's acknowledgements, and a host that vanished must show. */
void TuneTcp(const int descriptor)
{
    SetOption(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
    SetOption(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
    SetOption(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, SilenceSecs / 4);
    SetOption(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, SilenceSecs / 4);
    SetOption(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

/** Whether something is on its way to a host, or asked of it, that has acknowledged nothing for too
 *  long; the kernel's own probes see to connections on which nothing is. */
bool IsHostSilent(const int descriptor)
{
    tcp_info info{};
    socklen_t size = sizeof(info);
    return getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           (info.tcpi_unacked > 0 || info.tcpi_probes > 1) &&
           // Some kernels don't count data from the peer as an acknowledgement where it
           // acknowledges nothing new, and then don't probe either.
           std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv) >= SilenceSecs * 1000;
}

/** Returns 0 or the errno of a connection that failed. */
int Connect(const int descriptor, const sockaddr *address, const socklen_t size,
            const Deadline &deadline)
{
    // 0 milliseconds would mean for ever.
    const int left = deadline ? std::max(MillisecondsUntil(deadline), 1) : StandstillSecs * 1000;
    LimitSending(descriptor, left);
    int error = connect(descriptor, address, size) == 0 ? 0 : errno;
    // What connect(2) says when SO_SNDTIMEO has passed.
    if (error == EINPROGRESS || error == EAGAIN)
    {
        error = ETIMEDOUT;
    }
    LimitSending(descriptor, LookSecs * 1000);
    return error;
}

[[noreturn]] void ThrowNobody(const std::string &peer, const std::string &reason)
{
    throw ConnectionLost("bbflow: no agent answers at " + peer + " (" + reason + ")");
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/** Looks `host:port` up. */
Addresses Resolve(const std::string &peer)
{
    const std::string host = Socket::HostOf(peer);
    const size_t colon = peer.rfind(':');
    const std::string port = colon != std::string::npos ? peer.substr(colon + 1) : "";
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo *found = nullptr;
    const int failed =
        host.empty() ? EAI_NONAME : getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
    if (failed != 0)
    {
        ThrowNobody(peer, gai_strerror(failed));
    }
    return {found, &freeaddrinfo};
}

} // end empty namespace

Socket::Socket(const int family, std::string peer)
: m_Descriptor(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)), m_Peer(std::move(peer))
{
    if (m_Descriptor < 0)
    {
        throw std::runtime_error(std::string("bbflow: can't make a socket (") +
                                 std::strerror(errno) + ")");
    }
}

Socket::~Socket() { close(m_Descriptor); }

std::string Socket::HostOf(const std::string &address)
{
    const std::string host = address.substr(0, address.rfind(':'));
    const bool hasBrackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
    return hasBrackets ? host.substr(1, host.size() - 2) : host;
}

std::unique_ptr<Socket> Socket::ToPath(const std::string &path, const Deadline &deadline)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path))
    {
        throw std::runtime_error("bbflow: the socket's path is too long: " + path);
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    std::unique_ptr<Socket> made(new Socket(AF_UNIX, path));
    const auto *plain = reinterpret_cast<const sockaddr *>(&address);
    if (const int error = Connect(made->m_Descriptor, plain, sizeof(address), deadline))
    {
        ThrowNobody(path, std::strerror(error));
    }
    return made;
}

std::unique_ptr<Socket> Socket::ToAddress(const std::string &address, const Deadline &deadline)
{
    const Addresses found = Resolve(address);
    int error = 0;
    for (const addrinfo *one = found.get(); one != nullptr; one = one->ai_next)
    {
        std::unique_ptr<Socket> made(new Socket(one->ai_family, address));
        error = Connect(made->m_Descriptor, one->ai_addr, one->ai_addrlen, deadline);
        if (error == 0)
        {
            TuneTcp(made->m_Descriptor);
            return made;
        }
    }
    ThrowNobody(address, std::strerror(error));
}

void Socket::Send(const std::string_view head, const std::string_view tail)
{
    std::array<iovec, 2> parts = {iovec{const_cast<char *>(head.data()), head.size()},
                                  iovec{const_cast<char *>(tail.data()), tail.size()}};
    Deadline standstill = After(StandstillSecs);
    for (size_t first = 0; first < parts.size();)
    {
        msghdr message{};
        message.msg_iov = parts.data() + first;
        message.msg_iovlen = parts.size() - first;
        // Without MSG_NOSIGNAL an agent's end would kill the program, which is not ours, by
        // SIGPIPE.
        ssize_t sent = sendmsg(m_Descriptor, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN && (IsOver(standstill) || IsHostSilent(m_Descriptor)))
        {
            ThrowLost(ETIMEDOUT);
        }
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
        {
            ThrowLost(errno);
        }
        if (sent > 0)
        {
            standstill = After(StandstillSecs);
        }
        for (sent = std::max<ssize_t>(sent, 0);
             first < parts.size() && static_cast<size_t>(sent) >= parts[first].iov_len; ++first)
        {
            sent -= static_cast<ssize_t>(parts[first].iov_len);
        }
        if (first < parts.size())
        {
            parts[first].iov_base = static_cast<char *>(parts[first].iov_base) + sent;
            parts[first].iov_len -= static_cast<size_t>(sent);
        }
    }
}

size_t Socket::Receive(char *target, const size_t most, const Deadline &deadline)
{
    while (true)
    {
        pollfd waiting{m_Descriptor, POLLIN, 0};
        const int left = MillisecondsUntil(deadline);
        const int look = LookSecs * 1000;
        // In short waits, since nothing wakes the last one when the host goes silent.
        const int ready = poll(&waiting, 1, left < 0 ? look : std::min(left, look));
        if (ready == 0 && IsHostSilent(m_Descriptor))
        {
            ThrowLost(ETIMEDOUT);
        }
        if (ready == 0 && IsOver(deadline))
        {
            return 0;
        }
        if (ready == 0)
        {
            continue;
        }
        const ssize_t n = ready < 0 ? -1 : recv(m_Descriptor, target, most, 0);
        if (n > 0)
        {
            return static_cast<size_t>(n);
        }
        if (n == 0 || errno != EINTR)
        {
            ThrowLost(n == 0 ? ECONNRESET : errno);
        }
    }
}

void Socket::ThrowLost(const int error) const
{
    throw ConnectionLost("bbflow: the BB node's agent is gone: " + m_Peer + " (" +
                         std::strerror(error) + "); see the log of 'bbflow node'");
}

} // end namespace bbflow
