#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace bbflow
{

/** Ends threads, also while they wait. */
class Ending
{
public:
    void Begin()
    {
        {
            const std::lock_guard<std::mutex> lock(m_Mutex); // who waits has it seen, or sees it
            m_IsBegun = true;
        }
        m_Changed.notify_all();
    }

    bool IsBegun() const { return m_IsBegun; }

    /** Waits for this long, or until the end has begun; returns whether it has. */
    bool WaitFor(const double seconds)
    {
        std::unique_lock<std::mutex> lock(m_Mutex);
        return m_Changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                  [this] { return m_IsBegun.load(); });
    }

private:
    std::mutex m_Mutex;
    std::condition_variable m_Changed;
    std::atomic<bool> m_IsBegun{false};
};

} // end namespace bbflow
