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

} // namespace

Place ChooseNode(const std::string &contactPath, const RankOf &rank)
{
    const Value contact = ReadContact(contactPath);
    const std::string host = HostName();
    std::vector<const Value *> nodes;
    for (const Value &node : contact.ArrayAt("nodes"))
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
    const auto nodeOf = [&](const size_t r) { return r * nodes.size() / rank.Writers; };
    const Value &node = *nodes[nodeOf(rank.Rank)];
    size_t localWriters = 0;
    for (size_t r = 0; r < rank.Writers; ++r)
    {
        localWriters += nodeOf(r) == nodeOf(rank.Rank) ? 1 : 0;
    }
    return {node.StringAt("name"), node.StringAt("socket"), localWriters};
}

} // end namespace bbflow
