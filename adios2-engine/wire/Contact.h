#pragma once

#include "Channel.h"

#include <string>
#include <vector>

namespace bbflow
{

/** How blocks get to a node. */
enum class Transport
{
    /** Shared memory on the own host, else TCP. */
    Auto,
    SharedMemory,
    Tcp,
    /** TCP, with libfabric beside it for blocks. */
    Fabric
};

/** One BB node, as the contact file describes it. */
struct Node
{
    std::string Name;
    std::string Host;
    std::string Socket;
    std::string Directory;
    /** `host:port`; empty if it listens on its Unix socket only. */
    std::string Tcp;
    /** PEM file of the authorities that its certificate is checked against; empty without TLS. */
    std::string Tls;

    /** Whether this process runs on the node's host. */
    bool IsHere() const;
};

/** Who keeps the names of the files below one directory (bbflow/files/FORMAT.md, "Contact file").
 */
struct Master : Node
{
    uint64_t Number = 0;
};

/** The contact file (FORMAT.md, "Contact file"). */
struct Contact
{
    /** Hexadecimal digits of the secret. */
    std::string Key;
    std::vector<Node> Nodes;
    /** Empty if the nodes keep no files. */
    std::vector<Master> Masters;
};

/** Whose contact file a process reads. */
enum class ContactOf
{
    /** Root reads its own only: the file says which pools and sockets are opened. */
    OwnUser,
    /** For who opens nothing that it names without looking whose it is. */
    AnyUser
};

/** @throws std::runtime_error if the file isn't there, is damaged, of another version, or root
 * reads it and it isn't root's */
Contact ReadContact(const std::string &path, ContactOf whose = ContactOf::OwnUser);

/** `gethostname()` of this host. */
std::string HostName();

/** Which of the two connections to a node a transport takes: SharedMemory or Tcp. */
Transport WayTo(const Node &node, Transport transport);

/** Connects to a node and shakes hands.
 *  @throws ConnectionLost if nothing answers there
 *  @throws Refused if the node has another secret, version or certificate
 *  @throws std::invalid_argument if there is no such way to the node */
Channel ConnectTo(const Node &node, const std::string &key, Transport transport,
                  const Deadline &deadline);

} // end namespace bbflow
