#include "Contact.h"

#include "Json.h"

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <unistd.h>
#include <vector>

namespace bbflow
{

namespace
{

std::string HostName()
{
    char name[256] = {};
    gethostname(name, sizeof(name) - 1);
    return name;
}

Value ReadContact(const std::string &path)
{
    std::ifstream file(path);
    if (!file)
    {
        throw std::runtime_error("bbflow: can't read the contact file '" + path + "'");
    }
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    try
    {
        Value contact = ParseJson(text);
        if (contact.StringAt("format") != "bbflow-contact" || contact.UnsignedAt("version") != 1)
        {
            throw std::runtime_error("it is of another format or version");
        }
        return contact;
    }
    catch (const std::runtime_error &error)
    {
        throw std::runtime_error("bbflow: '" + path +
                                 "' is no contact file of version 1: " + error.what());
    }
}

/** With nodes on several hosts only the ranks of this host land on its nodes. */
RankOf LocalRank(const std::string &contactPath)
{
    const std::optional<RankOf> local = LocalRankFromLauncher();
    if (!local)
    {
        throw std::runtime_error(
            "bbflow: '" + contactPath +
            "' has BB nodes on several hosts, but the launcher doesn't say how "
            "many ranks run on this one (with srun give --ntasks-per-node)");
    }
    return *local;
}

} // namespace

Place ChooseNode(const std::string &contactPath, const RankOf &rank)
{
    const Value contact = ReadContact(contactPath);
    const std::string host = HostName();
    std::vector<const Value *> nodes;
    const Value::Array &all = contact.ArrayAt("nodes");
    for (const Value &node : all)
    {
        if (node.StringAt("host") == host)
        {
            nodes.push_back(&node);
        }
    }
    if (nodes.empty())
    {
        throw std::runtime_error("bbflow: '" + contactPath + "' has no BB node on host " + host +
                                 ": start one here with 'bbflow node'");
    }
    const RankOf local = nodes.size() == all.size() ? rank : LocalRank(contactPath);
    const auto nodeOf = [&](const size_t r) { return r * nodes.size() / local.Writers; };
    const Value &node = *nodes[nodeOf(local.Rank)];
    size_t localWriters = 0;
    for (size_t r = 0; r < local.Writers; ++r)
    {
        localWriters += nodeOf(r) == nodeOf(local.Rank) ? 1 : 0;
    }
    return {node.StringAt("name"), node.StringAt("socket"), localWriters};
}

} // end namespace bbflow
