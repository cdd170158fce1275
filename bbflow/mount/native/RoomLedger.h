#pragma once

#include "MasterLink.h"

#include <mutex>

namespace bbflow
{

/** What this client may still write on each node, and what it wrote of that without a commit
 *  (bbflow/files/FORMAT.md, "Room"). */
class RoomLedger
{
public:
    /** Takes in what a reply says of the room; an older one than the last doesn't count. */
    void Update(const Value &reply);

    /** Takes bytes of a node; false if they aren't there. */
    bool TrySpend(const std::string &node, uint64_t bytes);

    /** Bytes that were taken are committed, in a reply that was taken in before, or thrown away. */
    void Settle(const Rooms &spent);

    /** A session begins: there is the room that it brings. */
    void Restart();

    Rooms Granted();

private:
    std::mutex m_Mutex;
    uint64_t m_Number = 0;
    Rooms m_Granted;
    Rooms m_Spent;
};

/** Gives the bytes of the whole pages that so many bytes take. */
constexpr uint64_t PagesOf(const uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

} // end namespace bbflow
