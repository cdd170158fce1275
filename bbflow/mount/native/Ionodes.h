#pragma once

#include "Ionode.h"
#include "Value.h"

#include <map>

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

    /** @throws Errno EHOSTDOWN if the master says that it is away, EIO if there is no such node */
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
    std::map<std::string, Known> m_Known;
};

} // end namespace bbflow
