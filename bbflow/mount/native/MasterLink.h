#pragma once

#include "Deadline.h"
#include "Errno.h"
#include "MasterSession.h"

#include <thread>

namespace bbflow
{

/** Waits for a node that is away, for this long and no longer from when that is first noticed: a
 * call may have waited there for something else before. */
class Patience
{
public:
    explicit Patience(const double seconds) : m_Seconds(seconds) {}

    /** Returns after a moment if trying again may help.
     *  @throws Errno the error itself if it is another one; EIO if the time is up; EINTR if the
     *          program doesn't wait any longer */
    void WaitFor(const Errno &error, const Caller &caller);

private:
    const double m_Seconds;
    std::optional<Deadline> m_End;
};

/** What calls ask a master, and what it says by itself, over connections that break and come back.
 */
class MasterLink
{
public:
    /** Connects. @param patience how long a call waits for a master that is gone, in seconds
     *  @throws std::runtime_error if there is no such master, or it refuses */
    MasterLink(MountedContact contact, uint64_t number, double patience, LinkListener listener);
    ~MasterLink();
    MasterLink(const MasterLink &) = delete;
    MasterLink &operator=(const MasterLink &) = delete;

    /** Sends a request and waits for its reply, over lost connections if need be, and while a node
     *  that it needs is away.
     *  @throws Errno with what the master refuses by; EIO if the node stays away, EINTR if the
     *          program doesn't wait for it any longer
     *  @throws Unanswered the same where it is the master that stays away, or isn't waited for */
    Value Ask(const Caller &caller, const Value::Map &request);

    /** Sends what has no reply; it is lost with the connection, as the session's own things are. */
    void Tell(const Value &message);

    KeptMetadata &Kept() { return m_Session.Kept(); }

    /** Grows when a session ended and another one began: what was open in the old one is void. */
    uint64_t Generation() const { return m_Session.Generation(); }
    double KernelSecs() const { return m_Session.KernelSecs(); }

    /** What the master said when the session began. */
    Value Options() const { return m_Session.Options(); }

    /** For a call, which waits for nodes as long as for the master. */
    Patience NewPatience() const { return Patience(m_Patience); }

private:
    const double m_Patience;
    Ending m_Ending;
    MasterSession m_Session;
    std::thread m_Listening;
    std::thread m_Pinging;

    Value AskAgainAndAgain(const Caller &caller, const Value &request);
    Value AskOnce(const Caller &caller, const Value &request, uint64_t &epoch);
    void Listen();
    void ListenOnce();
    void Hear(ServerChannel &channel, const Value &message);
    void Ping();
};

} // end namespace bbflow
