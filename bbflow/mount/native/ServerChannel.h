#pragma once

#include "Contact.h"

#include <functional>

namespace bbflow
{

/** How long a connection to a server may take to come. */
constexpr double ConnectSecs = 10.0;

/** A connection to a master or an IOnode. One that doesn't reply is waited for while it lets others
 *  in, no longer. */
class ServerChannel : public Channel
{
public:
    /** Connects.
     *  @param patience how long calls wait for one that is away, in seconds: after as long without
     *         reply, 10 s at most, it is looked whether it still lets anybody in
     *  @throws as ConnectTo */
    ServerChannel(Node server, std::string key, double patience, const Deadline &deadline);

    /** Waits for the reply to what was asked.
     *  @param isLeft whether nobody waits for it any longer; asked some times each second
     *  @return nothing if so: the reply is still to come then
     *  @throws ConnectionLost if it is gone, or says nothing and lets nobody in either
     *  @throws Refused if another server is there by now */
    std::optional<Value> Await(const std::function<bool()> &isLeft);

    const Node &Server() const { return m_Server; }

private:
    const Node m_Server;
    const std::string m_Key;
    const double m_SilenceSecs;
};

} // end namespace bbflow
