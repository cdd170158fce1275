#pragma once

#include "Caller.h"
#include "Ending.h"
#include "KeptMetadata.h"
#include "MountedContact.h"
#include "ServerChannel.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>

namespace bbflow
{

/** Bytes that this client may still write, by node's name (bbflow/files/FORMAT.md, "Room"). */
using Rooms = std::map<std::string, uint64_t>;

/** What a session holds, to come back with it after a lost connection. */
struct Held
{
    Value::Array Handles;
    Rooms Room;
};

/** Who has to know what happens to a session. Called by the link's own threads. */
struct LinkListener
{
    /** Others change these: what is kept of them goes, before the master is answered. */
    std::function<void(const Forgotten &)> OnForget;
    /** The nodes are others now. */
    std::function<void(const Value &nodes)> OnNodes;
    /** Again and again, some times each second. */
    std::function<void()> OnPause;
    /** A reply has come, and its request is over: what it gives is the session's. */
    std::function<void(const Value &reply)> OnReply;
    /** What the session holds now. */
    std::function<Held()> Holding;
    /** The session is back; or another one began, and what the last one had is void. */
    std::function<void(const Value &session, bool isNew)> OnSession;
};

/** The requests of a session that are under way. Each counts once, however often it is sent: its
 *  slot and its number there tell the master whether it comes for the first time. No locks: whose
 *  it is takes care of that. */
class RequestSlots
{
public:
    /** Gives a request a slot that no other one has now, and a number there. */
    size_t Take(Value::Map &request);

    /** @param isAbandoned whether the request's reply was not taken */
    void Leave(size_t slot, bool isAbandoned);

    /** Slot and number of each request that has no reply yet. */
    Value::Array UnderWay() const;

private:
    struct Slot
    {
        uint64_t Number = 0;
        bool IsBusy = false;
        bool IsAbandoned = false;
    };
    std::vector<Slot> m_Slots;
};

/** A session with one master, and its connections: they come back after they broke. */
class MasterSession
{
public:
    using Clock = std::chrono::steady_clock;

    /** Begins it.
     *  @param patience how long a call waits for a master that is gone, in seconds
     *  @throws std::runtime_error if there is no such master, or it refuses */
    MasterSession(MountedContact contact, uint64_t number, double patience, LinkListener listener,
                  Ending &ending);

    /** Ends the session, if the master is there. */
    void End();

    /** Returns a connection that is joined to the session, which comes back for it if need be.
     *  @param epoch counts the times that the session came up
     *  @throws std::runtime_error if the master is away, or doesn't know the session */
    std::unique_ptr<ServerChannel> Take(uint64_t &epoch);

    /** Takes a connection back that is still good. */
    void GiveBack(std::unique_ptr<ServerChannel> channel, uint64_t epoch);

    /** Takes down that a connection of this epoch broke; 0 for whichever it is. */
    void Lose(uint64_t epoch);

    /** Makes this connection the one on which the master sends what to forget. */
    void ListenOn(ServerChannel &channel);

    /** Sends a request and waits for its reply.
     *  @param caller whoever may stop waiting; may be null
     *  @throws Errno what the master refuses by; EINTR if it is no longer waited for
     *  @throws ConnectionLost if the master says nothing, and lets nobody in either */
    Value Exchange(ServerChannel &channel, const Value &request, const Caller *caller) const;

    /** Extends what is kept by another lease from when a request was sent. */
    void Renew(const Value &reply, Clock::time_point sent);

    /** Gives a request a slot that no other one has now, and a number there. */
    size_t TakeSlot(Value::Map &request);

    /** Takes down that a request is over.
     *  @param reply null if it was refused, or isn't waited for */
    void LeaveSlot(size_t slot, const Value *reply);

    KeptMetadata &Kept() { return m_Kept; }
    const LinkListener &Listener() const { return m_Listener; }
    uint64_t Generation() const { return m_Generation; }
    Value Options() const { return m_Options; }
    double LeaseSecs() const { return m_LeaseSecs; }

    /** How long the kernel may keep what it is told. It doesn't know of leases: so here, nothing is
     *  kept in the last part of one. */
    double KernelSecs() const { return std::min(1.0, m_LeaseSecs / 10); }

private:
    const MountedContact m_Contact;
    const uint64_t m_Number;
    const double m_Patience;
    const LinkListener m_Listener;
    Ending &m_Ending;
    KeptMetadata m_Kept;
    Value m_Options;
    std::atomic<uint64_t> m_Generation{0};
    std::atomic<double> m_LeaseSecs{0.0};

    std::mutex m_Mutex;
    std::string m_Name;
    /** Where the session came up last. */
    std::optional<Node> m_Place;
    bool m_IsUp = false;
    /** Counts the times that the session came up: connections of before are of no use. */
    uint64_t m_Epoch = 0;
    std::vector<std::unique_ptr<ServerChannel>> m_Idle;
    RequestSlots m_Slots;

    std::unique_ptr<ServerChannel> Connect(const std::optional<Node> &before,
                                           const Deadline &deadline) const;
    void BeginFirst();
    void Begin(const Deadline &deadline);
    Value AskForSession(ServerChannel &channel, bool &isNew);
    Value::Map Resuming(Value::Map request) const;
    void Join(ServerChannel &channel, const std::string &name, bool listens) const;
};

} // end namespace bbflow
