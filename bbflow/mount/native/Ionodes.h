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
    /** @param contact path of the contact file, which has the key */
    explicit Ionodes(std::string contact) : m_Contact(std::move(contact)) {}

    /** Takes in a list `nodes` of the master. */
    void Update(const Value::Array &nodes);

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

    const std::string m_Contact;
    std::mutex m_Mutex;
    std::condition_variable m_Updated;
    std::map<std::string, Known> m_Known;
};

} // end namespace bbflow
