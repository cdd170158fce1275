#pragma once

#include "Caller.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

namespace bbflow
{

/** Lets those who read a file share it, and who changes it have it alone, as a std::shared_mutex
 *  does. Who has it may wait for a node or a master: so a signal ends the wait of the others. */
class FileLock
{
public:
    using Alone = std::unique_lock<FileLock>;
    using Shared = std::shared_lock<FileLock>;

    /** How often whoever waits looks whether a signal has come, as for a node or a master: one that
     *  isn't fatal doesn't end a shorter wait, since few programs expect EINTR of a file. */
    static constexpr std::chrono::milliseconds InterruptTime{500};

    /** @throws Errno EINTR if the caller doesn't wait any longer */
    Alone HaveAlone(const Caller &caller);
    Shared Share(const Caller &caller);

    /** Lets others have it until they have made a condition hold, or the time is up.
     *  @throws Errno EINTR as HaveAlone; then the lock isn't held */
    template <class Condition>
    void Wait(Alone &lock, const Caller &caller, const std::chrono::milliseconds most,
              const Condition &holds)
    {
        const auto end = std::chrono::steady_clock::now() + most;
        while (true)
        {
            const uint64_t seen = Changes();
            if (holds() || std::chrono::steady_clock::now() >= end)
            {
                return;
            }
            LetOthers(lock, caller, seen, end);
        }
    }

    /** Has those in Wait look again: their condition was changed without the lock. */
    void Note();

    // As std::unique_lock and std::shared_lock call them.
    void lock();
    bool try_lock();
    void unlock();
    void lock_shared();
    void unlock_shared();

private:
    std::mutex m_Mutex;
    std::condition_variable m_Freed;
    bool m_IsAlone = false;
    size_t m_Sharing = 0;
    /** How often a condition may have changed. */
    uint64_t m_Changes = 0;

    bool IsFree() const { return !m_IsAlone && m_Sharing == 0; }
    uint64_t Changes();
    void LetOthers(Alone &lock, const Caller &caller, uint64_t seen,
                   std::chrono::steady_clock::time_point end);
};

} // end namespace bbflow
