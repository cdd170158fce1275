#include "FabricRoute.h"

#include "Arena.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iostream>
#include <netdb.h>
#include <sys/socket.h>

namespace bbflow
{

namespace
{

/** A row of the node's table of keys. */
struct Key
{
    uint64_t Base, Key;
};

/** Address of this host on the network on which a connection is. */
std::string OwnAddress(const int connection)
{
    sockaddr_storage own{};
    socklen_t bytes = sizeof(own);
    char text[NI_MAXHOST] = {};
    const auto address = reinterpret_cast<sockaddr *>(&own);
    const bool isKnown =
        getsockname(connection, address, &bytes) == 0 &&
        getnameinfo(address, bytes, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0;
    return isKnown ? text : "";
}

void SayThroughHost(const std::string &why)
{
    static std::atomic<bool> isSaid = false;
    if (!isSaid.exchange(true))
    {
        std::cerr << why + ": a GPU's memory goes through the host's\n" << std::flush;
    }
}

std::vector<Key> ReadKeys(const std::string &table)
{
    std::vector<Key> keys(table.size() / sizeof(Key));
    std::memcpy(keys.data(), table.data(), keys.size() * sizeof(Key));
    return keys;
}

} // end empty namespace

FabricRoute::FabricRoute(const Value &told, const int alive, const bool checks, const bool fromGpus)
: m_Fabric(told.StringAt("provider"), OwnAddress(alive), told.BytesAt("address"), fromGpus),
  m_Alive(alive), m_HasChecks(checks), m_TakesGpus(fromGpus && m_Fabric.TakesGpus())
{
    if (fromGpus && !m_TakesGpus)
    {
        SayThroughHost("bbflow: libfabric's provider " + told.StringAt("provider") + " reads none");
    }
    const std::vector<Key> scratch = ReadKeys(told.BytesAt("scratch"));
    if (scratch.size() != 1)
    {
        throw FabricError("bbflow: the BB node named no place to try libfabric with");
    }
    // Ports may be closed, and networks apart: that shows now, and not in the first step.
    const char word[8] = {};
    Lend({word, sizeof(word)});
    m_Fabric.Write(m_Lent.back(), {word, sizeof(word)}, scratch[0].Base, scratch[0].Key, m_Alive);
    Finish();
}

void FabricRoute::TakeKeys(const Value &reply)
{
    const Value *table = reply.Find("keys");
    if (table == nullptr)
    {
        return;
    }
    const std::vector<Arena::Place> extents = Arena::ReadExtents(reply);
    const std::vector<Key> keys = ReadKeys(std::get<Value::Binary>(table->Get()).Bytes);
    for (size_t i = 0; i < std::min(extents.size(), keys.size()); ++i)
    {
        const auto &[offset, bytes] = extents[i];
        const auto isIt = [begin = offset](const Grant &grant) { return grant.Offset == begin; };
        m_Grants.erase(std::remove_if(m_Grants.begin(), m_Grants.end(), isIt), m_Grants.end());
        m_Grants.push_back({offset, bytes, keys[i].Base, keys[i].Key});
    }
}

template <class Action>
void FabricRoute::Try(Action action)
{
    try
    {
        action();
    }
    catch (const FabricError &)
    {
        m_HasFailed = true;
        throw;
    }
}

void FabricRoute::Lend(const std::string_view memory)
{
    Try([&] { m_Lent.push_back(m_Fabric.Lend(memory.data(), memory.size())); });
}

bool FabricRoute::Lend(const std::string_view memory, const ofi::Owner &gpu)
{
    try
    {
        m_Lent.push_back(m_Fabric.Lend(memory.data(), memory.size(), gpu));
    }
    catch (const FabricError &error)
    {
        SayThroughHost(error.what());
        m_TakesGpus = false;
    }
    return m_TakesGpus;
}

void FabricRoute::Write(const std::string_view piece, const size_t offset)
{
    const auto holds = [&](const Grant &grant)
    {
        return grant.Offset <= offset && offset - grant.Offset <= grant.Bytes &&
               piece.size() <= grant.Bytes - (offset - grant.Offset);
    };
    // The newest first: an older one of other bounds may overlap it.
    const auto grant = std::find_if(m_Grants.rbegin(), m_Grants.rend(), holds);
    Try(
        [&]
        {
            if (grant == m_Grants.rend())
            {
                throw FabricError("bbflow: the BB node gave no key for an extent");
            }
            const uint64_t place = grant->Base + (offset - grant->Offset);
            m_Fabric.Write(m_Lent.back(), piece, place, grant->Key, m_Alive);
        });
}

void FabricRoute::Finish()
{
    Try([&] { m_Fabric.Finish(m_Alive); });
    m_Lent.clear();
}

} // end namespace bbflow
