#pragma once

#include "Entry.h"

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace bbflow
{

class OpenInode;

/** Files that are no longer open for reading, but were just now: programs often open
 *  what others have just read. As long as they don't change, the master needn't be asked then. */
class LingeringOpens
{
public:
    /** Closes the file later, or at once if its bytes came from the shared storage just now.
     *  @param handle of a reader */
    void Add(FileId id, std::shared_ptr<OpenInode> state, int64_t handle);

    /** Closes those that have lingered for long enough. */
    void CloseOld();

    /** Closes one file now, or as soon as it is idle. */
    void Close(FileId id);

    /** Closes all that are idle: what they keep from going could be room that somebody waits
     *  for. */
    void CloseAll();

private:
    using Clock = std::chrono::steady_clock;

    struct Open
    {
        FileId Id;
        std::shared_ptr<OpenInode> State;
        int64_t Handle;
        Clock::time_point Until;
    };

    std::mutex m_Mutex;
    std::deque<Open> m_Opens;

    /** Never waits for one that is just being read: that could wait for room. */
    void CloseIf(const std::function<bool(const Open &)> &isMeant);
};

} // end namespace bbflow
