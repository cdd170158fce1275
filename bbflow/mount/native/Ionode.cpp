#include "Ionode.h"

#include "Errno.h"

#include <cstdio>
#include <fcntl.h>
#include <iostream>
#include <random>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

namespace bbflow
{

namespace
{

/** How often bytes are sent that arrive damaged. */
constexpr int SendTries = 3;

/** A connection's name, as no other one of any client has it. */
std::string RandomName()
{
    std::random_device source;
    return std::to_string(source()) + "-" + std::to_string(source());
}

/** Checks that a file has what counts of it: on a node that has lost its memory it has less, and to
 *  write on behind that would make zeros of it; one without a name is nobody's any more.
 *  @throws Errno EIO if not */
void RequireBytes(const int descriptor, const uint64_t bytes)
{
    struct stat found = {};
    Checked(fstat(descriptor, &found));
    if (found.st_nlink == 0 || static_cast<uint64_t>(found.st_size) < bytes)
    {
        throw Errno(EIO);
    }
}

/** A piece in a directory of this host. */
class LocalPiece final : public PieceFile
{
public:
    /** @param descriptor is closed with it */
    explicit LocalPiece(const int descriptor) : m_Descriptor(descriptor) {}
    ~LocalPiece() override { close(m_Descriptor); }
    LocalPiece(const LocalPiece &) = delete;
    LocalPiece &operator=(const LocalPiece &) = delete;

    size_t Read(const Caller &, char *target, const size_t most, const uint64_t offset) override
    {
        size_t have = 0;
        while (have < most)
        {
            const ssize_t n = Checked(
                pread(m_Descriptor, target + have, most - have, static_cast<off_t>(offset + have)));
            if (n == 0)
            {
                break;
            }
            have += static_cast<size_t>(n);
        }
        return have;
    }

    void Write(const Caller &, const std::string_view bytes, const uint64_t offset) override
    {
        for (size_t done = 0; done < bytes.size();)
        {
            done += static_cast<size_t>(
                Checked(pwrite(m_Descriptor, bytes.data() + done, bytes.size() - done,
                               static_cast<off_t>(offset + done))));
        }
    }

    void Cut(const Caller &, const uint64_t bytes) override
    {
        Require(bytes);
        Checked(ftruncate(m_Descriptor, static_cast<off_t>(bytes)));
    }

    void Require(const uint64_t bytes) const override { RequireBytes(m_Descriptor, bytes); }

    int Descriptor() const override { return m_Descriptor; }

private:
    const int m_Descriptor;
};

/** A piece on another host, read and written by messages. */
class RemotePiece final : public PieceFile
{
public:
    RemotePiece(std::shared_ptr<Ionode> node, std::string key)
    : m_Node(std::move(node)), m_Key(std::move(key))
    {
    }

    size_t Read(const Caller &caller, char *target, const size_t most,
                const uint64_t offset) override
    {
        const Value request = Value::Map{
            {"op", "read"}, {"key", m_Key}, {"offset", offset}, {"bytes", uint64_t{most}}};
        return m_Node->Over(
            [&](ServerChannel &channel)
            {
                const Value reply = m_Node->Exchange(caller, channel, request);
                const uint64_t bytes = reply.UnsignedAt("bytes");
                if (bytes > most)
                {
                    throw ConnectionLost("bbflow: " + channel.Peer() +
                                         " sends more than was asked");
                }
                if (!channel.ReceiveRaw(reply, target, bytes, After(Channel::ReplySecs)))
                {
                    throw ConnectionLost("bbflow: bytes from " + channel.Peer() + " came damaged");
                }
                return size_t{bytes};
            });
    }

    void Write(const Caller &caller, const std::string_view bytes, const uint64_t offset) override
    {
        const Value::Map request = {
            {"op", "write"}, {"key", m_Key}, {"offset", offset}, {"bytes", uint64_t{bytes.size()}}};
        for (int left = SendTries; left > 0; --left)
        {
            try
            {
                m_Node->Over(
                    [&](ServerChannel &channel)
                    {
                        channel.SendRaw(request, bytes);
                        m_Node->Await(caller, channel);
                        return bytes.size();
                    });
                return;
            }
            catch (const Errno &error)
            {
                if (error.Number() != EBADMSG || left == 1)
                {
                    throw Errno(error.Number() == EBADMSG ? EIO : error.Number());
                }
            }
        }
    }

    void Cut(const Caller &caller, const uint64_t bytes) override
    {
        m_Node->Ask(caller, Value::Map{{"op", "cut"}, {"key", m_Key}, {"bytes", bytes}});
    }

private:
    const std::shared_ptr<Ionode> m_Node;
    const std::string m_Key;
};

/** Copies the first bytes of a file into an empty one. @throws Errno if it fails */
void CopyBytes(const int from, const int to, const uint64_t bytes)
{
    RequireBytes(from, bytes);
    off_t offset = 0;
    while (static_cast<uint64_t>(offset) < bytes)
    {
        if (Checked(sendfile(to, from, &offset, bytes - static_cast<uint64_t>(offset))) == 0)
        {
            throw Errno(EIO); // it has been cut meanwhile
        }
    }
}

} // end empty namespace

std::string KeyOf(const uint64_t version, const uint64_t index)
{
    char text[64];
    std::snprintf(text, sizeof(text), "%lx.%lx", static_cast<unsigned long>(version),
                  static_cast<unsigned long>(index));
    return text;
}

Ionode::Ionode(Node address, std::string key, const double patience)
: m_Address(std::move(address)), m_Key(std::move(key)), m_Patience(patience),
  m_MayHold(m_Address.IsHere())
{
}

bool Ionode::IsLocal() { return Pieces() != nullptr; }

std::shared_ptr<const HeldDirectory> Ionode::Pieces()
{
    const std::lock_guard<std::mutex> lock(m_HoldMutex);
    // A node that was started again after its directory was removed has another one of that name.
    if (m_Pieces && m_Pieces->IsRemoved())
    {
        m_Pieces.reset();
    }
    if (!m_Pieces && m_MayHold)
    {
        Hold();
    }
    return m_Pieces;
}

bool Ionode::IsHeld()
{
    const std::lock_guard<std::mutex> lock(m_HoldMutex);
    return m_Pieces != nullptr;
}

/** Holds the pieces if this session's node listens beside them: a master may name any directory of
 *  this user's, also that of a node with another key. */
void Ionode::Hold()
{
    const HeldDirectory above(m_Address.Directory);
    if (!above.IsHeld())
    {
        return;
    }
    Node within = m_Address;
    within.Socket = above.PathOf("ionode.sock");
    try
    {
        const Channel asked(ConnectTo(within, m_Key, Transport::SharedMemory, After(ConnectSecs)));
        HeldDirectory pieces = above.Below("pieces");
        if (pieces.IsHeld())
        {
            m_Pieces = std::make_shared<const HeldDirectory>(std::move(pieces));
        }
    }
    catch (const Refused &error)
    {
        std::cerr << "bbflow-mount: the files in " << m_Address.Directory
                  << " are of other nodes than the master's, and aren't touched: " << error.what()
                  << std::endl;
        m_MayHold = false;
    }
    catch (const std::runtime_error &)
    {
        // It is away: then its pieces wait, as those of other hosts do.
    }
}

std::unique_ptr<PieceFile> Ionode::Open(const std::string &key)
{
    if (const auto pieces = Pieces())
    {
        return std::make_unique<LocalPiece>(pieces->Open(key, O_RDWR));
    }
    return std::make_unique<RemotePiece>(shared_from_this(), key);
}

std::unique_ptr<PieceFile> Ionode::Make(const Caller &caller, const std::string &key)
{
    if (const auto pieces = Pieces())
    {
        return std::make_unique<LocalPiece>(pieces->Make(key));
    }
    auto piece = std::make_unique<RemotePiece>(shared_from_this(), key);
    piece->Cut(caller, 0);
    return piece;
}

std::unique_ptr<PieceFile> Ionode::Copy(const Caller &caller, const std::string &key,
                                        const std::string &of, const uint64_t bytes)
{
    if (const auto pieces = Pieces())
    {
        const LocalPiece source(pieces->Open(of, O_RDONLY));
        auto made = std::make_unique<LocalPiece>(pieces->Make(key));
        CopyBytes(source.Descriptor(), made->Descriptor(), bytes);
        return made;
    }
    Ask(caller, Value::Map{{"op", "copy"}, {"key", key}, {"of", of}, {"bytes", bytes}});
    return std::make_unique<RemotePiece>(shared_from_this(), key);
}

void Ionode::WaitUntilReady(const Caller &caller, const std::string &key, const uint64_t offset,
                            const uint64_t bytes)
{
    Ask(caller, Value::Map{{"op", "ready"}, {"key", key}, {"offset", offset}, {"bytes", bytes}});
}

void Ionode::Ask(const Caller &caller, const Value &request)
{
    Over(
        [&](ServerChannel &channel)
        {
            Exchange(caller, channel, request);
            return size_t{0};
        });
}

Value Ionode::Exchange(const Caller &caller, ServerChannel &channel, const Value &request) const
{
    channel.Send(request);
    return Await(caller, channel);
}

Value Ionode::Await(const Caller &caller, ServerChannel &channel) const
{
    std::optional<Value> reply = channel.Await([&] { return caller.IsInterrupted.load(); });
    if (!reply)
    {
        throw Errno(EINTR);
    }
    if (!reply->BoolAt("ok"))
    {
        throw Errno(static_cast<int>(reply->UnsignedAt("errno")));
    }
    return std::move(*reply);
}

size_t Ionode::Over(const std::function<size_t(ServerChannel &)> &work)
{
    while (true)
    {
        std::optional<Named> idle = TakeIdle();
        const bool isFresh = !idle;
        Named used;
        try
        {
            used = isFresh ? Connect() : std::move(*idle);
            const size_t result = work(*used.Link);
            GiveBack(std::move(used));
            return result;
        }
        catch (const Errno &error)
        {
            // After an interrupt its reply is still to come, and would be taken for the next one's.
            error.Number() == EINTR ? Leave(used.Name) : GiveBack(std::move(used));
            throw;
        }
        catch (const std::runtime_error &error)
        {
            Leave(used.Name);
            if (isFresh)
            {
                std::cerr << error.what() << std::endl;
                throw Errno(EHOSTDOWN);
            }
        }
    }
}

void Ionode::Settle()
{
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        if (m_Left.empty())
        {
            return;
        }
    }
    Over([](ServerChannel &) { return size_t{0}; });
}

/** Connects, and has the node do nothing more for connections that were left. */
Ionode::Named Ionode::Connect()
{
    std::set<std::string> left;
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        left = m_Left;
    }
    Value::Array without(left.begin(), left.end());
    Named made{RandomName(),
               std::make_unique<ServerChannel>(m_Address, m_Key, m_Patience, After(ConnectSecs))};
    made.Link->Send(
        Value::Map{{"op", "begin"}, {"connection", made.Name}, {"without", std::move(without)}});
    made.Link->Reply(After(ConnectSecs));
    const std::lock_guard<std::mutex> lock(m_Mutex);
    for (const std::string &name : left)
    {
        m_Left.erase(name);
    }
    return made;
}

/** A connection's last request is no longer waited for: others begin only once the node knows. */
void Ionode::Leave(const std::string &name)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    if (!name.empty())
    {
        m_Left.insert(name);
        m_Idle.clear();
    }
}

std::optional<Ionode::Named> Ionode::TakeIdle()
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    if (m_Idle.empty())
    {
        return std::nullopt;
    }
    Named named = std::move(m_Idle.back());
    m_Idle.pop_back();
    return named;
}

void Ionode::GiveBack(Named named)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    if (m_Left.empty())
    {
        m_Idle.push_back(std::move(named));
    }
}

} // end namespace bbflow
