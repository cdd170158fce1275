#pragma once

#include "Caller.h"
#include "Contact.h"
#include "KeptMetadata.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <thread>

namespace bbflow
{

/** Bytes that this client may still write, by node's name (bbflow/files/FORMAT.md, "Room"). */
using Rooms = std::map<std::string, uint64_t>;

/** What a session holds, to come back with it after a lost connection. */
struct Held
{
    /** Requests that have no reply yet: slot and number. */
    Value::Array Slots;
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
    /** A reply has come, and its request is over: what it gives is the session's. */
    std::function<void(const Value &reply)> OnReply;
    /** What the session holds now. */
    std::function<Held()> Holding;
    /** The session is back; or another one began, and what the last one had is void. */
    std::function<void(const Value &session, bool isNew)> OnSession;
};

/** A session with one master: connections that are joined to it, made again when they break. */
class MasterLink
{
public:
    /** Connects. @param patience how long a call waits for a master that is gone, in seconds
     *  @throws std::runtime_error if there is no such master, or it refuses */
    MasterLink(std::string contact, uint64_t number, double patience, LinkListener listener);
    ~MasterLink();
    MasterLink(const MasterLink &) = delete;
    MasterLink &operator=(const MasterLink &) = delete;

    /** Sends a request and waits for its reply, over lost connections if need be.
     *  @throws Errno with what the master refuses by; EIO if it stays away; EINTR if the program
     *          doesn't wait any longer */
    Value Ask(const Caller &caller, Value::Map request);

    /** Sends what has no reply; it is lost with the connection, as the session's own things are. */
    void Tell(const Value &message);

    KeptMetadata &Kept() { return m_Kept; }

    /** Grows when a session ended and another one began: what was open in the old one is void. */
    uint64_t Generation() const { return m_Generation; }

    /** What the master said when the session began. */
    Value Options() const { return m_Options; }
    const std::string &Contact() const { return m_Contact; }
    double Patience() const { return m_Patience; }

private:
    using Clock = std::chrono::steady_clock;

    const std::string m_Contact;
    const uint64_t m_Number;
    const double m_Patience;
    const LinkListener m_Listener;
    KeptMetadata m_Kept;
    Value m_Options;
    std::atomic<uint64_t> m_Generation{0};

    std::mutex m_Mutex;
    std::string m_Session;
    bool m_IsUp = false;
    /** Counts the times that the session came up: connections of before are of no use. */
    uint64_t m_Epoch = 0;
    double m_LeaseSecs = 0.0;
    std::vector<std::unique_ptr<Channel>> m_Idle;

    /** One request at a time. Its number tells the master whether it comes for the first time. */
    struct Slot
    {
        uint64_t Number = 0;
        bool IsBusy = false;
        /** Nobody has taken the last request's reply. */
        bool IsAbandoned = false;
    };
    std::vector<Slot> m_Slots;

    std::mutex m_EndMutex;
    std::condition_variable m_EndChanged;
    std::atomic<bool> m_IsEnding{false};
    std::thread m_Listening;
    std::thread m_Pinging;

    std::unique_ptr<Channel> Connect(const Deadline &deadline) const;
    void BeginFirst();
    void Begin(const Deadline &deadline);
    Value AskForSession(Channel &channel, bool &isNew);
    Value Exchange(Channel &channel, const Value &request, const Caller *caller) const;
    size_t TakeSlot(Value::Map &request);
    void LeaveSlot(size_t slot, const Value *reply, bool isAbandoned);
    Value AskAgainAndAgain(const Caller &caller, const Value &request);
    std::unique_ptr<Channel> Take(uint64_t &epoch, const Deadline &deadline);
    void GiveBack(std::unique_ptr<Channel> channel, uint64_t epoch);
    void Lose(uint64_t epoch);
    void Renew(const Value &reply, Clock::time_point sent);
    void Listen();
    void ListenOnce();
    void Ping();
    bool WaitForEnd(double seconds);
};

} // end namespace bbflow
