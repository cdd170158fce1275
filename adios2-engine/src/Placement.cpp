#include "Placement.h"

#include "Opening.h"
#include "StreamShare.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>

namespace bbflow
{

namespace
{

/** A rule for ranks `First` to `First + Ranks - 1` of the program. */
struct Rule
{
    std::function<size_t(size_t rank)> NodeOf;
    size_t First = 0;
    size_t Ranks = 1;
};

std::vector<size_t> NodesHere(const Contact &contact)
{
    std::vector<size_t> here;
    for (size_t i = 0; i < contact.Nodes.size(); ++i)
    {
        if (contact.Nodes[i].IsHere())
        {
            here.push_back(i);
        }
    }
    return here;
}

RankOf LocalRank(const Parameters &parameters)
{
    if (!parameters.OnHost || parameters.OnHost->Rank > parameters.Place.Rank)
    {
        throw std::runtime_error("bbflow: '" + parameters.Contact +
                                 "' has BB nodes on several hosts, but nothing says how many ranks "
                                 "run on this one (with srun give --ntasks-per-node): set "
                                 "RanksPerNode");
    }
    return *parameters.OnHost;
}

/** The node of each rank. Those of a host share its nodes, those of hosts without one share all. */
std::vector<size_t> NodesByHost(const Contact &contact, const std::vector<size_t> &hosts)
{
    struct Host
    {
        std::vector<size_t> Nodes;
        size_t Ranks = 0, Placed = 0;
    };
    std::map<size_t, Host> known;
    Host others;
    for (size_t i = 0; i < contact.Nodes.size(); ++i)
    {
        known[HostNumber(contact.Nodes[i].Host.c_str())].Nodes.push_back(i);
        others.Nodes.push_back(i);
    }
    const auto of = [&](const size_t host) -> Host &
    {
        const auto found = known.find(host);
        return found == known.end() ? others : found->second;
    };
    for (const size_t host : hosts)
    {
        ++of(host).Ranks;
    }
    std::vector<size_t> nodes;
    for (const size_t number : hosts)
    {
        Host &host = of(number);
        nodes.push_back(host.Nodes[host.Placed++ * host.Nodes.size() / host.Ranks]);
    }
    return nodes;
}

Rule RuleFor(const Contact &contact, const Parameters &parameters)
{
    const auto [rank, writers] = parameters.Place;
    const size_t nodes = contact.Nodes.size();
    if (parameters.RanksPerNode > 0)
    {
        return {[=](const size_t r) { return r / parameters.RanksPerNode % nodes; }, 0, writers};
    }
    if (!parameters.Hosts.empty())
    {
        const auto table =
            std::make_shared<const std::vector<size_t>>(NodesByHost(contact, parameters.Hosts));
        return {[table](const size_t r) { return (*table)[r]; }, 0, writers};
    }
    const std::vector<size_t> here = NodesHere(contact);
    if (here.empty() || here.size() == nodes)
    {
        return {[=](const size_t r) { return r * nodes / writers; }, 0, writers};
    }
    const RankOf local = LocalRank(parameters);
    const size_t first = rank - local.Rank; // a host's ranks are consecutive
    const auto nodeOf = [=](const size_t r)
    { return here[(r - first) * here.size() / local.Writers]; };
    return {nodeOf, first, local.Writers};
}

} // end empty namespace

Placement ChooseNode(const Contact &contact, const Parameters &parameters)
{
    if (contact.Nodes.empty())
    {
        throw std::runtime_error("bbflow: '" + parameters.Contact + "' has no BB node");
    }
    const size_t node = RuleFor(contact, parameters).NodeOf(parameters.Place.Rank);
    return {node, CountWriters(contact, parameters, node)};
}

size_t CountWriters(const Contact &contact, const Parameters &parameters, const size_t node)
{
    const Rule rule = RuleFor(contact, parameters);
    const StreamShare share = ShareOf(parameters);
    const size_t end = std::min(rule.First + rule.Ranks, share.FirstRank + share.Ranks);
    size_t writers = 0;
    for (size_t r = std::max(rule.First, share.FirstRank); r < end; ++r)
    {
        writers += rule.NodeOf(r) == node ? 1 : 0;
    }
    return writers;
}

} // end namespace bbflow
