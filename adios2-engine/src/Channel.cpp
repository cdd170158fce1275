#include "Channel.h"

#include "Frame.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace bbflow
{

namespace
{

constexpr const char *Gone = "bbflow: the BB node's agent is gone: see the log of 'bbflow node'";

int MillisecondsUntil(const Deadline &deadline)
{
    if (!deadline)
    {
        return -1;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
}

} // namespace

Deadline After(const double seconds)
{
    constexpr double forever = 1e9; // more doesn't fit the clock
    if (seconds < 0 || seconds > forever)
    {
        return std::nullopt;
    }
    return std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(
               std::chrono::duration<double>(seconds));
}

Channel::Channel(const std::string &path) : m_Socket(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path))
    {
        close(m_Socket);
        throw std::runtime_error("bbflow: the socket's path is too long: " + path);
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    if (connect(m_Socket, reinterpret_cast<sockaddr *>(&address), sizeof(address)) != 0)
    {
        const std::string reason = std::strerror(errno);
        close(m_Socket);
        throw std::runtime_error("bbflow: no agent answers at " + path + " (" + reason + ")");
    }
}

Channel::~Channel() { close(m_Socket); }

void Channel::Send(const Value &message)
{
    const std::string frame = EncodeFrame(message);
    for (size_t sent = 0; sent < frame.size();)
    {
        const ssize_t n = send(m_Socket, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
        {
            continue;
        }
        if (n <= 0)
        {
            throw std::runtime_error(Gone);
        }
        sent += static_cast<size_t>(n);
    }
}

std::optional<Value> Channel::Receive(const Deadline &deadline)
{
    char buffer[4096];
    while (true)
    {
        if (std::optional<Value> message = TakeMessage(m_Received))
        {
            return message;
        }
        pollfd waiting{m_Socket, POLLIN, 0};
        const int ready = poll(&waiting, 1, MillisecondsUntil(deadline));
        if (ready == 0)
        {
            return std::nullopt;
        }
        const ssize_t n = ready < 0 ? -1 : recv(m_Socket, buffer, sizeof(buffer), 0);
        if (n < 0 && errno == EINTR)
        {
            continue;
        }
        if (n <= 0)
        {
            throw std::runtime_error(Gone);
        }
        m_Received.append(buffer, static_cast<size_t>(n));
    }
}

} // end namespace bbflow
