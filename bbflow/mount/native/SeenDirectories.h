#pragma once

#include "Entry.h"

#include <mutex>
#include <optional>
#include <unordered_map>

namespace bbflow
{

/** Directories that the kernel has in its memory, as they were last told of. One that is removed
 *  stays what it was for who has it open, or works in it: empty, and without a name. */
class SeenDirectories
{
public:
    void Note(const FileId id, const struct stat &attributes)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        m_Seen[id] = attributes;
    }

    void Drop(const FileId id)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        m_Seen.erase(id);
    }

    /** Returns what is left of a directory that its master doesn't know any more. */
    std::optional<struct stat> Removed(const FileId id)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        const auto found = m_Seen.find(id);
        if (found == m_Seen.end())
        {
            return std::nullopt;
        }
        found->second.st_nlink = 0;
        return found->second;
    }

private:
    std::mutex m_Mutex;
    std::unordered_map<FileId, struct stat> m_Seen;
};

} // end namespace bbflow
