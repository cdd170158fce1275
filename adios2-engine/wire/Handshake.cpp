#include "Handshake.h"

#include "Hex.h"
#include "Mac.h"
#include "Sha256.h"

#include <cerrno>
#include <cstring>
#include <sys/random.h>

namespace bbflow
{

namespace
{

constexpr double HandshakeSecs = 10.0;
// Who has proved nothing yet can't make this process take more.
constexpr uint32_t MostBytes = 4096;
constexpr size_t NonceBytes = 16;

std::string RandomBytes(const size_t size)
{
    std::string bytes(size, '\0');
    if (getrandom(bytes.data(), size, 0) != static_cast<ssize_t>(size))
    {
        throw std::runtime_error(std::string("bbflow: no random numbers (") + std::strerror(errno) +
                                 ")");
    }
    return bytes;
}

Value Reply(Channel &channel, const Deadline &deadline)
{
    const std::optional<Value> reply = channel.Receive(deadline, MostBytes);
    if (!reply)
    {
        throw ConnectionLost("bbflow: " + channel.Peer() + " doesn't answer the handshake");
    }
    if (!reply->BoolAt("ok"))
    {
        throw Refused("bbflow: " + channel.Peer() + " refuses: " + reply->StringAt("error"));
    }
    return *reply;
}

void CheckNode(const Channel &channel, const Value &reply, const std::string &proof)
{
    if (reply.UnsignedAt("version") != FormatVersion)
    {
        throw Refused("bbflow: the BB node at " + channel.Peer() +
                      " speaks another version of the protocol: start the nodes and "
                      "the program with the same version of bbflow");
    }
    if (!AreEqual(reply.StringAt("proof"), proof))
    {
        throw Refused("bbflow: the BB node at " + channel.Peer() +
                      " has another secret than the contact file: give the contact "
                      "file that this node wrote");
    }
}

} // end empty namespace

void ShakeHands(Channel &channel, const std::string &key, const bool isSealed)
{
    const std::string secret = FromHex(key);
    const std::string mine = ToHex(RandomBytes(NonceBytes));
    const Deadline deadline = After(HandshakeSecs);
    const Value hello = Value::Map{
        {"op", "hello"}, {"versions", Value::Array{FormatVersion, FormatVersion}}, {"nonce", mine}};
    channel.Send(hello);
    const Value reply = Reply(channel, deadline);
    const std::string nonces = mine + reply.StringAt("nonce");
    // With a word of its own for each side: neither's proof can be sent back as the other's.
    CheckNode(channel, reply, ToHex(HmacSha256(secret, "node" + nonces)));
    channel.Send(
        Value::Map{{"op", "prove"}, {"proof", ToHex(HmacSha256(secret, "peer" + nonces))}});
    if (isSealed)
    {
        auto [mineSeal, nodesSeal] = SealsOf(secret, nonces);
        channel.SealWith(std::move(mineSeal), std::move(nodesSeal));
    }
    Reply(channel, deadline);
}

} // end namespace bbflow
