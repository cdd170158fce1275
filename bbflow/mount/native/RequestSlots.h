#pragma once

#include "MessagePack.h"

#include <vector>

namespace bbflow
{

/** The requests of a session that are under way. Each counts once, however often it is sent: its
 *  slot and its number there tell the master whether it comes for the first time. No locks: whose
 *  it is takes care of that. */
class RequestSlots
{
public:
    /** Gives a request a slot that no other one has now, and a number there. */
    size_t Take(Value::Map &request);

    /** @param isAbandoned whether the request's reply was not taken */
    void Leave(size_t slot, bool isAbandoned);

    /** Slot and number of each request that has no reply yet. */
    Value::Array UnderWay() const;

private:
    struct Slot
    {
        uint64_t Number = 0;
        bool IsBusy = false;
        bool IsAbandoned = false;
    };
    std::vector<Slot> m_Slots;
};

} // end namespace bbflow
