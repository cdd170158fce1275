#pragma once

#include "Entry.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace bbflow
{

/** The kernel's numbers of files. A file gets another one when somebody wants to write it whom the
 *  kernel can't let in beside those who have it open by its first one: these keep what they opened,
 *  and all who come later open it by the new one. */
class NodeIds
{
public:
    static FileId FileOf(const uint64_t node) { return node & ~(Most << Shift); }

    uint64_t NodeOf(const FileId id)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        return Node(id, Turn(id));
    }

    /** Tells files apart that have a number one after the other. */
    uint64_t GenerationOf(const FileId id)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        return Turn(id) / (Most + 1);
    }

    /** All numbers that the kernel may know a file by. */
    std::vector<uint64_t> NodesOf(const FileId id)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        std::vector<uint64_t> nodes;
        for (uint64_t turn = 0; turn <= std::min(Turn(id), Most); ++turn)
        {
            nodes.push_back(Node(id, turn));
        }
        return nodes;
    }

    /** Gives a file its next number that isn't in use.
     *  @return false if all are */
    bool TryRenew(const FileId id, const std::function<bool(uint64_t)> &isUsed)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        uint64_t &turn = m_Turns[id];
        for (uint64_t tried = 0; tried < Most; ++tried)
        {
            if (!isUsed(Node(id, ++turn)))
            {
                return true;
            }
        }
        return false;
    }

private:
    /** Masters count files from 1 on: none gets near these bits, above which is a master's number.
     */
    static constexpr int Shift = 40;
    static constexpr uint64_t Most = 255;

    std::mutex m_Mutex;
    std::unordered_map<FileId, uint64_t> m_Turns;

    static uint64_t Node(const FileId id, const uint64_t turn)
    {
        return id | (turn & Most) << Shift;
    }

    uint64_t Turn(const FileId id) const
    {
        const auto found = m_Turns.find(id);
        return found == m_Turns.end() ? 0 : found->second;
    }
};

} // end namespace bbflow
