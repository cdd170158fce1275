#pragma once

#include "Files.h"

#include <mutex>
#include <unordered_set>

namespace bbflow
{

/** The files that the kernel surely has in its memory, since it has asked about them by their
 *  numbers, or is just told that it has made them. What a lookup tells of others could count after
 *  it was called back: the kernel doesn't know yet whom to forget. */
class KnownNodes
{
public:
    void Note(const FileId id)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        m_Ids.insert(id);
    }

    /** @return whether it was known */
    bool Drop(const FileId id)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        return m_Ids.erase(id) != 0;
    }

    bool Has(const FileId id)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        return m_Ids.count(id) != 0;
    }

private:
    std::mutex m_Mutex;
    std::unordered_set<FileId> m_Ids;
};

} // end namespace bbflow
