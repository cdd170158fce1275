#include "RoomLedger.h"

namespace bbflow
{

using Lock = std::lock_guard<std::mutex>;

void RoomLedger::Update(const Value &reply)
{
    const Value *room = reply.Find("room");
    const Value *number = reply.Find("room_number");
    const auto *nodes = room != nullptr ? std::get_if<Value::Map>(&room->Get()) : nullptr;
    if (nodes == nullptr)
    {
        return;
    }
    const Lock lock(m_Mutex);
    const uint64_t count = number != nullptr ? number->AsUnsigned() : m_Number;
    if (count < m_Number)
    {
        return;
    }
    m_Number = count;
    m_Granted.clear();
    for (const auto &[node, bytes] : *nodes)
    {
        m_Granted[node] = bytes.AsUnsigned();
    }
}

bool RoomLedger::TrySpend(const std::string &node, const uint64_t bytes)
{
    const Lock lock(m_Mutex);
    if (m_Spent[node] + bytes > m_Granted[node])
    {
        return false;
    }
    m_Spent[node] += bytes;
    return true;
}

void RoomLedger::Settle(const Rooms &spent)
{
    const Lock lock(m_Mutex);
    for (const auto &[node, bytes] : spent)
    {
        uint64_t &left = m_Spent[node];
        left -= std::min(left, bytes);
    }
}

void RoomLedger::Restart()
{
    const Lock lock(m_Mutex);
    m_Number = 0;
    m_Granted.clear();
}

Rooms RoomLedger::Granted()
{
    const Lock lock(m_Mutex);
    return m_Granted;
}

} // end namespace bbflow
