#include "NodeLink.h"

#include "RemoteLanding.h"
#include "SharedLanding.h"
#include "SpillAgent.h"

#include <iostream>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace bbflow
{

namespace
{

constexpr auto RetryInterval = std::chrono::milliseconds(50);

/** How often libfabric may fail before blocks go by TCP. */
constexpr int MostRouteFailures = 3;

/** How long another node may take to answer when the own one is lost. */
constexpr double NextNodeSecs = 10.0;

std::string Text(const double seconds)
{
    std::ostringstream text;
    text << seconds;
    return text.str();
}

/** An error's words for a line that begins with the program's name already. */
std::string Why(const std::exception &error)
{
    const std::string text = error.what(), name = "bbflow: ";
    return text.rfind(name, 0) == 0 ? text.substr(name.size()) : text;
}

/** Path of an offer's link; it lies beside the pool. */
std::string OfferLink(const std::string &pool, const std::string &name)
{
    if (name.empty() || name.find('/') != std::string::npos)
    {
        throw ConnectionLost("bbflow: the agent named an offer that can't be: " + name);
    }
    return pool.substr(0, pool.rfind('/') + 1) + "offers/" + name;
}

/** Number of a node; nothing if the contact file doesn't name it (any more). */
std::optional<size_t> NumberOf(const Contact &contact, const std::string &name)
{
    for (size_t i = 0; i < contact.Nodes.size(); ++i)
    {
        if (contact.Nodes[i].Name == name)
        {
            return i;
        }
    }
    return std::nullopt;
}

/** The contact file; no node where it is gone, as it is with the last node. */
Contact ReadIfThere(const std::string &path)
{
    try
    {
        return ReadContact(path);
    }
    catch (const std::runtime_error &)
    {
        return {};
    }
}

} // end empty namespace

NodeLink::NodeLink(const Parameters &parameters)
: m_Parameters(parameters), m_Share(ShareOf(parameters))
{
    if (parameters.Contact.empty())
    {
        throw std::runtime_error(
            "bbflow: no contact file is given: set the parameter Contact or the "
            "environment's BBFLOW_CONTACT, or start the program with 'bbflow run'");
    }
    Attempts attempts(parameters.OpenTimeoutSecs);
    while (!m_Landing)
    {
        const Deadline deadline = attempts.Begin();
        try
        {
            const Contact contact = ReadContact(parameters.Contact);
            const size_t node = ChooseNode(contact, parameters).Node;
            Open(contact, node, -1, "", deadline);
        }
        catch (const Refused &)
        {
            throw;
        }
        catch (const std::runtime_error &error)
        {
            if (attempts.IsLast())
            {
                throw std::runtime_error(std::string(error.what()) + "; waited OpenTimeoutSecs=" +
                                         Text(parameters.OpenTimeoutSecs));
            }
            std::this_thread::sleep_for(RetryInterval);
        }
    }
}

Value NodeLink::Open(const Contact &contact, const size_t number, const int64_t settled,
                     const std::string &movedFrom, const Deadline &deadline)
{
    const Node &node = contact.Nodes[number];
    const bool isShared = WayTo(node, m_Parameters.Transport) == Transport::SharedMemory;
    const bool mayWrite = !isShared && MayUseFabric(node);
    auto channel =
        std::make_unique<Channel>(ConnectTo(node, contact.Key, m_Parameters.Transport, deadline));
    const bool mayBeKnown = m_AskedNode == node.Name;
    m_AskedNode = node.Name; // a reply that gets lost must not make this rank unknown there
    const Value reply =
        Ask(*channel,
            Value::Map{{"local_writers", uint64_t{CountWriters(contact, m_Parameters, number)}},
                       {"transport", isShared ? "shm" : "tcp"},
                       {"settled", settled},
                       {"resume", mayBeKnown},
                       {"moved_from", movedFrom},
                       {"fabric", mayWrite ? *m_Providers : Value::Array{}}});
    m_Route.reset(); // nothing that it has under way may come behind what the new one brings
    m_Channel = std::move(channel);
    if (mayWrite && !m_Providers->empty() && !OpenRoute(node.Name, reply))
    {
        return Open(contact, number, settled, movedFrom, deadline); // the node is told of none now
    }
    m_IsSamePool = m_NodeName == node.Name;
    m_NodeName = node.Name;
    UsePool(reply, isShared);
    return reply;
}

Value NodeLink::Ask(Channel &channel, Value::Map open) const
{
    const Value::Map same = {{"op", "open"},
                             {"stream", m_Share.Stream},
                             {"rank", uint64_t{Rank()}},
                             {"writers", uint64_t{m_Share.Ranks}},
                             {"policy", m_Parameters.QueueFullPolicy},
                             {"host", HostName()},
                             {"pid", int64_t{getpid()}},
                             {"file", m_Parameters.File},
                             {"open_timeout_s", m_Parameters.OpenTimeoutSecs},
                             {"loss_timeout_s", m_Parameters.NodeLossTimeoutSecs}};
    open.insert(open.begin(), same.begin(), same.end());
    channel.Send(open);
    return channel.Reply(After(Channel::ReplySecs));
}

void NodeLink::UsePool(const Value &reply, const bool isShared)
{
    const std::string &path = reply.StringAt("pool");
    const std::string &offer = reply.StringAt("offer");
    m_Offer = isShared ? OfferLink(path, offer) : "";
    const size_t capacity = reply.UnsignedAt("capacity");
    const bool wasShared = m_Pool != nullptr;
    m_IsSamePool = m_IsSamePool && m_Landing && capacity == m_Capacity && wasShared == isShared &&
                   (!isShared || m_Pool->IsAt(path));
    m_Capacity = capacity;
    if (!m_IsSamePool)
    {
        m_Pool = isShared ? Pool::Share(path, capacity) : nullptr;
        ResetLanding();
    }
}

bool NodeLink::TakeOffer() const
{
    // The agent withdraws an offer by removing the link: of the two calls one succeeds.
    return rename(m_Offer.c_str(), (m_Offer + ".taken").c_str()) == 0;
}

void NodeLink::ResetLanding()
{
    if (m_Pool)
    {
        m_Landing = std::make_unique<SharedLanding>(m_Pool);
    }
    else
    {
        m_Landing = std::make_unique<RemoteLanding>(*m_Channel, m_Route.get());
    }
}

void NodeLink::TakeKeys(const Value &reply)
{
    if (m_Route)
    {
        m_Route->TakeKeys(reply);
    }
}

/** Whether blocks may go to a node by libfabric; looks once which providers this host has. */
bool NodeLink::MayUseFabric(const Node &node)
{
    // What goes by libfabric isn't encrypted: a node with TLS gets that only where the program says
    // so.
    const bool mayUse = node.Tls.empty() || m_Parameters.Transport == Transport::Fabric;
    if (mayUse && !m_Providers)
    {
        FindProviders();
    }
    return mayUse;
}

void NodeLink::FindProviders()
{
    m_Providers.emplace();
    const Transport transport = m_Parameters.Transport;
    const std::string &only = m_Parameters.FabricProvider;
    if (transport != Transport::Auto && transport != Transport::Fabric)
    {
        return;
    }
    std::string why = "libfabric has no " +
                      (only.empty() ? "provider that is better than TCP" : "provider " + only) +
                      " on this host";
    try
    {
        for (const std::string &provider : ProvidersHere(only))
        {
            m_Providers->emplace_back(provider);
        }
    }
    catch (const std::invalid_argument &error)
    {
        why = Why(error);
    }
    if (!m_Providers->empty())
    {
        return;
    }
    if (transport == Transport::Fabric)
    {
        throw std::invalid_argument("bbflow: Transport=fabric: " + why +
                                    ": set Transport=auto, or name another FabricProvider");
    }
    if (Rank() == 0 && MayHaveFabric(only))
    {
        TellWay("TCP, since " + why);
    }
}

/** Opens the way by libfabric that a node has offered; false if blocks go by TCP.
 *  @throws FabricError if it fails and the program wants no other */
bool NodeLink::OpenRoute(const std::string &node, const Value &reply)
{
    const bool isForced = m_Parameters.Transport == Transport::Fabric;
    const Value *told = reply.Find("fabric");
    try
    {
        if (told == nullptr || told->IsNil())
        {
            const Value *why = reply.Find("fabric_error");
            throw FabricError("bbflow: BB node " + node + " takes nothing by libfabric" +
                              (why ? ", and says: " + reply.StringAt("fabric_error") : ""));
        }
        m_Route = std::make_unique<FabricRoute>(*told, m_Channel->Descriptor(),
                                                m_Parameters.FabricChecks, m_Parameters.FabricGpu);
        m_Route->TakeKeys(reply);
        if (!isForced && Rank() == 0 && m_NodeName.empty())
        {
            TellWay("libfabric (" + told->StringAt("provider") + ")");
        }
        return true;
    }
    catch (const FabricError &error)
    {
        if (isForced)
        {
            throw;
        }
        LeaveFabric(Why(error));
        return told == nullptr || told->IsNil();
    }
}

void NodeLink::LeaveFabric(const std::string &why)
{
    m_Route.reset();
    m_Providers->clear();
    TellWay("TCP, since libfabric doesn't work: " + why);
}

void NodeLink::TellWay(const std::string &way) const
{
    std::cerr << "bbflow: stream '" + m_Share.Stream + "', rank " + std::to_string(Rank()) +
                     ": blocks go by " + way + "\n"
              << std::flush;
}

void NodeLink::ResumeLanding() { m_Landing->GoOn(*m_Channel, m_Route.get()); }

Value NodeLink::Restore(const int64_t settled, const std::string &why)
{
    if (m_Route && m_Route->HasFailed() && ++m_RouteFailures == MostRouteFailures &&
        m_Parameters.Transport == Transport::Auto)
    {
        LeaveFabric(why);
    }
    // The old connection stays until the new one is there: its end would mean that the rank is
    // gone.
    Attempts attempts(m_Parameters.NodeLossTimeoutSecs);
    while (true)
    {
        const Deadline deadline = attempts.Begin();
        try
        {
            const Contact contact = ReadContact(m_Parameters.Contact);
            const std::optional<size_t> node = NumberOf(contact, m_NodeName);
            if (!node)
            {
                throw ConnectionLost("bbflow: BB node " + m_NodeName + " has ended");
            }
            return Open(contact, *node, settled, "", deadline);
        }
        catch (const Refused &)
        {
            throw;
        }
        catch (const std::runtime_error &error)
        {
            if (attempts.IsLast())
            {
                return MoveOn(settled, why, Why(error));
            }
            std::this_thread::sleep_for(RetryInterval);
        }
    }
}

Value NodeLink::MoveOn(const int64_t settled, const std::string &why, const std::string &missed)
{
    const std::string lost = m_NodeName;
    std::string last = "there is no other node";
    const Contact contact = ReadIfThere(m_Parameters.Contact);
    const size_t nodes = contact.Nodes.size();
    const size_t first = NumberOf(contact, lost).value_or(nodes) + 1;
    for (size_t next = first; next < first + nodes; ++next)
    {
        try
        {
            if (contact.Nodes[next % nodes].Name != lost)
            {
                return Open(contact, next % nodes, settled, lost, After(NextNodeSecs));
            }
        }
        catch (const std::exception &error)
        {
            last = error.what();
        }
    }
    if (!m_Parameters.SpillDirectory.empty())
    {
        return SpillAlone(settled, lost);
    }
    throw std::runtime_error(why + "; BB node " + lost + " did not come back within " +
                             "NodeLossTimeoutSecs=" + Text(m_Parameters.NodeLossTimeoutSecs) +
                             " (" + missed + "), and no other takes its place: " + last +
                             "; with a SpillDirectory the program would continue");
}

Value NodeLink::SpillAlone(const int64_t settled, const std::string &lost)
{
    m_Route.reset();
    m_Channel = std::make_unique<Channel>(
        std::make_unique<SpillAgent>(m_Parameters.SpillDirectory, m_Share.Stream, Rank()));
    const Value reply = Ask(*m_Channel, Value::Map{{"local_writers", 0},
                                                   {"transport", "tcp"},
                                                   {"settled", settled},
                                                   {"resume", false},
                                                   {"moved_from", lost}});
    m_IsSamePool = false;
    UsePool(reply, false);
    return reply;
}

} // end namespace bbflow
