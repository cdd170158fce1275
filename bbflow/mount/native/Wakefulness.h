#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace bbflow
{

/** Keeps the host's processors from sleeping while programs make calls.
 *
 * A call wakes up to four threads one after another, and a virtual processor that sleeps takes
 * longer to wake than most calls last. Linux lets root say how long it may take (PM QoS); it
 * forgets what a process has said when that ends.
 */
class Wakefulness
{
public:
    /** @throws std::runtime_error if this user may not say so */
    Wakefulness();
    ~Wakefulness();
    Wakefulness(const Wakefulness &) = delete;
    Wakefulness &operator=(const Wakefulness &) = delete;

    /** A program has made a call. */
    void Note()
    {
        if (!m_IsCalled.load(std::memory_order_relaxed) && !m_IsCalled.exchange(true))
        {
            Wake();
        }
    }

private:
    const int m_Latency;
    std::atomic<bool> m_IsCalled{false};
    std::mutex m_Mutex;
    std::condition_variable m_Changed;
    bool m_IsOver = false;
    std::thread m_Thread;

    void Wake();
    void Run();
};

} // end namespace bbflow
