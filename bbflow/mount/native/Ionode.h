#pragma once

#include "Caller.h"
#include "HeldDirectory.h"
#include "ServerChannel.h"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace bbflow
{

/** One piece's bytes, on the node that has them. Offsets are in the piece. */
class PieceFile
{
public:
    virtual ~PieceFile() = default;

    /** Returns how many bytes came: fewer at the piece's end. */
    virtual size_t Read(const Caller &caller, char *target, size_t most, uint64_t offset) = 0;
    virtual void Write(const Caller &caller, std::string_view bytes, uint64_t offset) = 0;

    /** Ends it there. */
    virtual void Cut(const Caller &caller, uint64_t bytes) = 0;

    /** Checks that so many bytes of it are still there, if it lies on this host.
     *  @throws Errno EIO if not */
    virtual void Require(uint64_t) const {}

    /** Its descriptor, if it lies on this host. */
    virtual int Descriptor() const { return -1; }
};

/** An IOnode: pieces in its directory, if that is this host's and this user's and a node listens in
 *  it that knows the key, else by messages (bbflow/files/FORMAT.md, "Client and IOnode"). All
 *  methods throw Errno; EHOSTDOWN if the node doesn't answer. */
class Ionode : public std::enable_shared_from_this<Ionode>
{
public:
    /** @param patience how long calls wait for one that is away, in seconds */
    Ionode(Node address, std::string key, double patience);

    /** Opens a piece that is there. @throws Errno ENOENT if it isn't */
    std::unique_ptr<PieceFile> Open(const std::string &key);

    /** Makes an empty piece. */
    std::unique_ptr<PieceFile> Make(const Caller &caller, const std::string &key);

    /** Makes a piece of the first bytes of another one. */
    std::unique_ptr<PieceFile> Copy(const Caller &caller, const std::string &key,
                                    const std::string &of, uint64_t bytes);

    /** Waits until bytes have come from the shared storage. */
    void WaitUntilReady(const Caller &caller, const std::string &key, uint64_t offset,
                        uint64_t bytes);

    /** Does something over a connection; again over a new one if an idle one was broken. */
    size_t Over(const std::function<size_t(ServerChannel &)> &work);

    /** Returns once nothing is changed there any more by requests that nobody waits for. */
    void Settle();

    /** Sends a request, and waits until it is done. */
    void Ask(const Caller &caller, const Value &request);

    /** Sends a request over a connection and waits for its reply.
     *  @throws Errno if it is refused; EINTR if it is no longer waited for
     *  @throws ConnectionLost if the node says nothing, and lets nobody in either */
    Value Exchange(const Caller &caller, ServerChannel &channel, const Value &request) const;

    /** The same for what was sent. */
    Value Await(const Caller &caller, ServerChannel &channel) const;

    /** Whether its pieces are opened here; asks who listens in its directory, the first time. */
    bool IsLocal();

    /** Whether that was so once. */
    bool IsHeld();

private:
    const Node m_Address;
    const std::string m_Key;
    const double m_Patience;
    std::mutex m_HoldMutex;
    /** Whether its directory is one of this host, and not known to be another node's. */
    bool m_MayHold;
    /** Other threads may still work in one that was removed. */
    std::shared_ptr<const HeldDirectory> m_Pieces;
    /** A connection, by the name that the node knows it by. */
    struct Named
    {
        std::string Name;
        std::unique_ptr<ServerChannel> Link;
    };
    std::mutex m_Mutex;
    std::vector<Named> m_Idle;
    /** Connections whose last request may still be carried out, though nobody waits for it. */
    std::set<std::string> m_Left;

    std::shared_ptr<const HeldDirectory> Pieces();
    void Hold();
    Named Connect();
    std::optional<Named> TakeIdle();
    void GiveBack(Named named);
    void Leave(const std::string &name);
};

/** The name of a piece's file. */
std::string KeyOf(uint64_t version, uint64_t index);

} // end namespace bbflow
