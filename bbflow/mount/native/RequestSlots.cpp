#include "RequestSlots.h"

#include <algorithm>

namespace bbflow
{

size_t RequestSlots::Take(Value::Map &request)
{
    const auto free =
        std::find_if(m_Slots.begin(), m_Slots.end(), [](const Slot &slot) { return !slot.IsBusy; });
    const auto place = static_cast<size_t>(free - m_Slots.begin());
    if (free == m_Slots.end())
    {
        m_Slots.emplace_back();
    }
    Slot &slot = m_Slots[place];
    request.emplace_back("slot", uint64_t{place});
    request.emplace_back("number", ++slot.Number);
    if (slot.IsAbandoned)
    {
        request.emplace_back("abandoned", true);
    }
    slot.IsBusy = true;
    slot.IsAbandoned = false;
    return place;
}

void RequestSlots::Leave(const size_t slot, const bool isAbandoned)
{
    m_Slots[slot].IsBusy = false;
    m_Slots[slot].IsAbandoned = isAbandoned;
}

Value::Array RequestSlots::UnderWay() const
{
    Value::Array found;
    for (size_t slot = 0; slot < m_Slots.size(); ++slot)
    {
        if (m_Slots[slot].IsBusy)
        {
            found.push_back(Value::Array{uint64_t{slot}, m_Slots[slot].Number});
        }
    }
    return found;
}

} // end namespace bbflow
