#pragma once

#include "Ionode.h"
#include "Value.h"

#include <condition_variable>
#include <map>
#include <mutex>

namespace bbflow
{

/** The IOnodes of one master, by name. */
class Ionodes
{
public:
    /** @param key the mount's
     *  @param patience how long calls wait for one that is away, in seconds */
    Ionodes(std::string key, const double patience) : m_Key(std::move(key)), m_Patience(patience) {}

    /** Takes in a list `nodes` of the master. */
    void Update(const Value::Array &nodes);

    /** Asks those on this host whose pieces are there, so that these can be read when the nodes are
     *  away later. */
    void Hold();

    /**
     * Waits a while for a node that isn't known yet: after a restart of the master its reply to
     * `open` can be here before its word of the nodes that have come back.
     * @throws Errno EHOSTDOWN if the master says that it is away, EIO if there is no such node
     */
    std::shared_ptr<Ionode> At(const std::string &name);

private:
    struct Known
    {
        std::shared_ptr<Ionode> Link;
        std::string Address;
        bool IsUp;
    };

    const std::string m_Key;
    const double m_Patience;
    std::mutex m_Mutex;
    std::condition_variable m_Updated;
    std::map<std::string, Known> m_Known;
};

} // end namespace bbflow
