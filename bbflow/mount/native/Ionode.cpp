#include "Ionode.h"

#include "Errno.h"
#include "LocalPiece.h"
#include "RemotePiece.h"

#include <cstdio>
#include <fcntl.h>
#include <iostream>
#include <unistd.h>

namespace bbflow
{

namespace
{

constexpr double ConnectSecs = 10.0;
constexpr double InterruptSecs = 0.5;

} // end empty namespace

std::string KeyOf(const uint64_t version, const uint64_t index)
{
    char text[64];
    std::snprintf(text, sizeof(text), "%lx.%lx", static_cast<unsigned long>(version),
                  static_cast<unsigned long>(index));
    return text;
}

Value Await(const Caller &caller, Channel &channel)
{
    while (true)
    {
        if (std::optional<Value> reply = channel.Receive(After(InterruptSecs)))
        {
            if (!reply->BoolAt("ok"))
            {
                throw Errno(static_cast<int>(reply->UnsignedAt("errno")));
            }
            return std::move(*reply);
        }
        if (caller.IsInterrupted)
        {
            throw Errno(EINTR);
        }
    }
}

Value Exchange(const Caller &caller, Channel &channel, const Value &request)
{
    channel.Send(request);
    return Await(caller, channel);
}

Ionode::Ionode(Node address, std::string key)
: m_Address(std::move(address)), m_Key(std::move(key)),
  m_Directory(m_Address.IsHere() ? m_Address.Directory : "")
{
}

bool Ionode::IsLocal()
{
    const std::lock_guard<std::mutex> lock(m_HoldMutex);
    if (!m_Pieces.IsHeld() && m_Directory.IsHeld())
    {
        Hold();
    }
    return m_Pieces.IsHeld();
}

bool Ionode::IsHeld()
{
    const std::lock_guard<std::mutex> lock(m_HoldMutex);
    return m_Pieces.IsHeld();
}

/** Holds the pieces if this session's node listens beside them: a master may name any directory of
 *  this user's, also that of a node with another key. */
void Ionode::Hold()
{
    Node within = m_Address;
    within.Socket = m_Directory.PathOf("ionode.sock");
    try
    {
        GiveBack(std::make_unique<Channel>(
            ConnectTo(within, m_Key, Transport::SharedMemory, After(ConnectSecs))));
        m_Pieces = m_Directory.Below("pieces");
    }
    catch (const Refused &error)
    {
        std::cerr << "bbflow-mount: the files in " << m_Address.Directory
                  << " are of other nodes than the master's, and aren't touched: " << error.what()
                  << std::endl;
        m_Directory = HeldDirectory();
    }
    catch (const std::runtime_error &)
    {
        // It is away: then its pieces wait, as those of other hosts do.
    }
}

std::unique_ptr<PieceFile> Ionode::Open(const std::string &key)
{
    if (!IsLocal())
    {
        return std::make_unique<RemotePiece>(shared_from_this(), key);
    }
    return std::make_unique<LocalPiece>(m_Pieces.Open(key, O_RDWR));
}

std::unique_ptr<PieceFile> Ionode::Make(const Caller &caller, const std::string &key)
{
    if (!IsLocal())
    {
        std::unique_ptr<PieceFile> piece = Open(key);
        piece->Cut(caller, 0);
        return piece;
    }
    return std::make_unique<LocalPiece>(m_Pieces.Make(key));
}

std::unique_ptr<PieceFile> Ionode::Copy(const Caller &caller, const std::string &key,
                                        const std::string &of, const uint64_t bytes)
{
    if (!IsLocal())
    {
        Ask(caller, Value::Map{{"op", "copy"}, {"key", key}, {"of", of}, {"bytes", bytes}});
        return Open(key);
    }
    const LocalPiece source(m_Pieces.Open(of, O_RDONLY));
    std::unique_ptr<PieceFile> made = Make(caller, key);
    CopyBytes(source.Descriptor(), made->Descriptor(), bytes);
    return made;
}

void Ionode::WaitUntilReady(const Caller &caller, const std::string &key, const uint64_t offset,
                            const uint64_t bytes)
{
    Ask(caller, Value::Map{{"op", "ready"}, {"key", key}, {"offset", offset}, {"bytes", bytes}});
}

void Ionode::Ask(const Caller &caller, const Value &request)
{
    Over(
        [&](Channel &channel)
        {
            Exchange(caller, channel, request);
            return size_t{0};
        });
}

size_t Ionode::Over(const std::function<size_t(Channel &)> &work)
{
    while (true)
    {
        std::unique_ptr<Channel> channel;
        bool isFresh = false;
        try
        {
            channel = Take();
            isFresh = channel == nullptr;
            if (isFresh)
            {
                channel = std::make_unique<Channel>(
                    ConnectTo(m_Address, m_Key, Transport::Auto, After(ConnectSecs)));
            }
            const size_t result = work(*channel);
            GiveBack(std::move(channel));
            return result;
        }
        catch (const Errno &error)
        {
            // After an interrupt its reply is still to come, and would be taken for the next one's.
            if (error.Number() != EINTR)
            {
                GiveBack(std::move(channel));
            }
            throw;
        }
        catch (const std::runtime_error &error)
        {
            if (isFresh || channel == nullptr)
            {
                std::cerr << error.what() << std::endl;
                throw Errno(EHOSTDOWN);
            }
        }
    }
}

std::unique_ptr<Channel> Ionode::Take()
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    if (m_Idle.empty())
    {
        return nullptr;
    }
    std::unique_ptr<Channel> channel = std::move(m_Idle.back());
    m_Idle.pop_back();
    return channel;
}

void Ionode::GiveBack(std::unique_ptr<Channel> channel)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    m_Idle.push_back(std::move(channel));
}

} // end namespace bbflow
