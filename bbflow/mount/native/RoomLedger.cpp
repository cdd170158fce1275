#include "RoomLedger.h"

#include <algorithm>

namespace bbflow
{

namespace
{

constexpr uint64_t KeptBytes = uint64_t{32} << 20;

} // end empty namespace

using Lock = std::lock_guard<std::mutex>;

void RoomLedger::Update(const Value &reply)
{
    const Value *granted = reply.Find("granted");
    const auto *nodes = granted != nullptr ? std::get_if<Value::Map>(&granted->Get()) : nullptr;
    if (nodes == nullptr)
    {
        return;
    }
    const Lock lock(m_Mutex);
    for (const auto &[node, bytes] : *nodes)
    {
        m_Accounts[node].Left += bytes.AsUnsigned();
    }
}

std::optional<Lack> RoomLedger::TrySpend(const std::vector<std::string> &nodes,
                                         const uint64_t bytes)
{
    const Lock lock(m_Mutex);
    for (const std::string &node : nodes)
    {
        if (m_Accounts[node].Left < bytes)
        {
            return Lack{node, bytes};
        }
    }
    for (const std::string &node : nodes)
    {
        m_Accounts[node].Left -= bytes;
        m_Accounts[node].Spent += bytes;
    }
    return std::nullopt;
}

void RoomLedger::GiveBack(const std::vector<std::string> &nodes, const uint64_t bytes)
{
    const Lock lock(m_Mutex);
    for (const std::string &node : nodes)
    {
        Account &account = m_Accounts[node];
        const uint64_t spent = std::min(account.Spent, bytes); // 0 after a new session
        account.Spent -= spent;
        account.Left += spent;
    }
}

void RoomLedger::Commit(const std::vector<std::string> &nodes, const uint64_t bytes)
{
    const Lock lock(m_Mutex);
    for (const std::string &node : nodes)
    {
        Account &account = m_Accounts[node];
        account.Spent -= std::min(account.Spent, bytes);
    }
}

Rooms RoomLedger::TakeSurplus()
{
    const Lock lock(m_Mutex);
    Rooms surplus;
    for (auto &[node, account] : m_Accounts)
    {
        if (account.Left > KeptBytes)
        {
            surplus[node] = account.Left - KeptBytes;
            account.Left = KeptBytes;
        }
    }
    return surplus;
}

Rooms RoomLedger::Held()
{
    const Lock lock(m_Mutex);
    Rooms held;
    for (const auto &[node, account] : m_Accounts)
    {
        held[node] = account.Left + account.Spent;
    }
    return held;
}

void RoomLedger::Restart()
{
    const Lock lock(m_Mutex);
    m_Accounts.clear();
}

} // end namespace bbflow
