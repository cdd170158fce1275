#pragma once

#include "MasterLink.h"

#include <mutex>

namespace bbflow
{

/** Room that a node would have to give, and hasn't. */
struct Lack
{
    std::string Node;
    uint64_t Bytes;
};

/** What this client may still write on each node (bbflow/files/FORMAT.md, "Room"). Bytes are taken
 *  before they are written; the master takes them with the commit. */
class RoomLedger
{
public:
    /** Takes in what a reply grants. */
    void Update(const Value &reply);

    /** Takes bytes of all these nodes, or of none. @return what one lacks, else nothing */
    std::optional<Lack> TrySpend(const std::vector<std::string> &nodes, uint64_t bytes);

    /** Bytes that were taken were not needed: nothing lies there. */
    void GiveBack(const std::vector<std::string> &nodes, uint64_t bytes);

    /** Bytes that were taken are committed. */
    void Commit(const std::vector<std::string> &nodes, uint64_t bytes);

    /** What is more than this client needs for now; the master must be told that it is free. */
    Rooms TakeSurplus();

    /** All that the master has given and not taken back. */
    Rooms Held();

    /** A session begins with what its reply grants. */
    void Restart();

private:
    struct Account
    {
        uint64_t Left = 0;
        uint64_t Spent = 0;
    };

    std::mutex m_Mutex;
    std::map<std::string, Account> m_Accounts;
};

/** Returns the bytes of the whole pages that this many bytes take. */
constexpr uint64_t PagesOf(const uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

} // end namespace bbflow
