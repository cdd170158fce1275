#include "Contact.h"

#include "Handshake.h"
#include "Json.h"
#include "Socket.h"
#include "Tls.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

namespace bbflow
{

namespace
{

/** What a contact file may have. */
constexpr off_t MostBytes = off_t{64} << 20;

Node NodeFrom(const Value &json)
{
    return {json.StringAt("name"),      json.StringAt("host"), json.StringAt("socket"),
            json.StringAt("directory"), json.StringAt("tcp"),  json.StringAt("tls")};
}

Contact FromJson(const Value &json)
{
    if (json.StringAt("format") != "bbflow-contact" || json.UnsignedAt("version") != FormatVersion)
    {
        throw std::runtime_error("it is of another format or version");
    }
    Contact contact{json.StringAt("key"), {}, {}};
    for (const Value &node : json.ArrayAt("nodes"))
    {
        contact.Nodes.push_back(NodeFrom(node));
    }
    if (json.Find("masters") != nullptr)
    {
        for (const Value &master : json.ArrayAt("masters"))
        {
            contact.Masters.push_back({NodeFrom(master), master.UnsignedAt("number")});
        }
    }
    return contact;
}

[[noreturn]] void Refuse(const std::string &path, const std::string &why)
{
    throw std::runtime_error("bbflow: can't read the contact file '" + path + "': " + why);
}

std::string TextOf(const std::string &path, const ContactOf whose)
{
    // O_NONBLOCK: a pipe in its place must not hold anybody up
    const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
    {
        Refuse(path, std::strerror(errno));
    }
    struct stat found = {};
    std::string text;
    bool isRead = fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_size <= MostBytes;
    if (isRead)
    {
        text.resize(static_cast<size_t>(found.st_size));
        isRead = read(file, text.data(), text.size()) == found.st_size;
    }
    close(file);
    if (!isRead)
    {
        Refuse(path, "it is no regular file, or too large");
    }
    if (whose == ContactOf::OwnUser && geteuid() == 0 && found.st_uid != 0)
    {
        throw Refused("bbflow: the contact file '" + path + "' belongs to user " +
                      std::to_string(found.st_uid) +
                      ": root opens nothing that it names; be that user");
    }
    return text;
}

/** Whether only programs of the node's own host reach its TCP address. */
bool IsLoopback(const std::string &address)
{
    const auto startsWith = [&](const char *start) { return address.rfind(start, 0) == 0; };
    return startsWith("127.") || startsWith("localhost:") || startsWith("[::1]:");
}

std::unique_ptr<Socket> SocketTo(const Node &node, const Deadline &deadline)
{
    try
    {
        return Socket::ToAddress(node.Tcp, deadline);
    }
    catch (const std::runtime_error &error)
    {
        if (!IsLoopback(node.Tcp) || node.IsHere())
        {
            throw;
        }
        throw std::runtime_error(std::string(error.what()) + ": BB node " + node.Name +
                                 " serves its own host " + node.Host +
                                 " only: start it with --listen ADDRESS");
    }
}

std::unique_ptr<Wire> WireTo(const Node &node, const Deadline &deadline)
{
    std::unique_ptr<Socket> socket = SocketTo(node, deadline);
    if (node.Tls.empty())
    {
        return socket;
    }
    return std::make_unique<Tls>(std::move(socket), node.Tls, deadline);
}

} // end empty namespace

std::string HostName()
{
    char name[256] = {};
    gethostname(name, sizeof(name) - 1);
    return name;
}

bool Node::IsHere() const { return Host == HostName(); }

Contact ReadContact(const std::string &path, const ContactOf whose)
{
    const std::string text = TextOf(path, whose);
    try
    {
        return FromJson(ParseJson(text));
    }
    catch (const std::runtime_error &error)
    {
        throw std::runtime_error("bbflow: '" + path + "' is no contact file of version " +
                                 std::to_string(FormatVersion) + ": " + error.what());
    }
}

Transport WayTo(const Node &node, const Transport transport)
{
    const bool isShared =
        transport == Transport::Auto ? node.IsHere() : transport == Transport::SharedMemory;
    return isShared ? Transport::SharedMemory : Transport::Tcp;
}

Channel ConnectTo(const Node &node, const std::string &key, const Transport transport,
                  const Deadline &deadline)
{
    const bool isTcp = WayTo(node, transport) == Transport::Tcp;
    if (isTcp && node.Tcp.empty())
    {
        throw std::invalid_argument("bbflow: BB node " + node.Name + " on host " + node.Host +
                                    " doesn't listen for TCP: start it with --listen ADDRESS");
    }
    if (!isTcp && !node.IsHere())
    {
        throw std::invalid_argument("bbflow: Transport=shm, but BB node " + node.Name +
                                    " is on host " + node.Host + " and this is " + HostName() +
                                    ": set Transport=auto or RanksPerNode");
    }
    Channel channel(isTcp ? WireTo(node, deadline) : Socket::ToPath(node.Socket, deadline));
    ShakeHands(channel, key, isTcp);
    return channel;
}

} // end namespace bbflow
