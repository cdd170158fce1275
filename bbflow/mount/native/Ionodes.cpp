#include "Ionodes.h"

#include "Errno.h"

#include <chrono>

namespace bbflow
{

namespace
{

/** No longer than this is a node unknown that a master has just spoken of. */
constexpr std::chrono::seconds UnknownFor{5};

} // end empty namespace

void Ionodes::Update(const Value::Array &nodes)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    std::map<std::string, Known> known;
    for (const Value &node : nodes)
    {
        const Node address = {node.StringAt("name"),   node.StringAt("host"),
                              node.StringAt("socket"), node.StringAt("directory"),
                              node.StringAt("tcp"),    node.StringAt("tls")};
        const std::string place = address.Host + " " + address.Directory + " " + address.Tcp;
        Known &one = known[address.Name];
        const auto before = m_Known.find(address.Name);
        const bool isSame = before != m_Known.end() && before->second.Address == place;
        one.Link =
            isSame ? before->second.Link : std::make_shared<Ionode>(address, m_Key, m_Patience);
        one.Address = place;
        one.IsUp = node.BoolAt("up");
    }
    m_Known = std::move(known);
    m_Updated.notify_all();
}

void Ionodes::Hold()
{
    std::vector<std::shared_ptr<Ionode>> links;
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        for (const auto &[name, known] : m_Known)
        {
            links.push_back(known.Link);
        }
    }
    for (const std::shared_ptr<Ionode> &link : links)
    {
        link->IsLocal();
    }
}

std::shared_ptr<Ionode> Ionodes::At(const std::string &name)
{
    std::unique_lock<std::mutex> lock(m_Mutex);
    if (!m_Updated.wait_for(lock, UnknownFor, [&] { return m_Known.count(name) > 0; }))
    {
        throw Errno(EHOSTDOWN);
    }
    const auto found = m_Known.find(name);
    // Pieces that this host holds can be read without their node's program.
    if (!found->second.IsUp && !found->second.Link->IsHeld())
    {
        throw Errno(EHOSTDOWN);
    }
    return found->second.Link;
}

} // end namespace bbflow
