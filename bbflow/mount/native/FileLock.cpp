#include "FileLock.h"

#include "Errno.h"

namespace bbflow
{

namespace
{

/** Waits until something holds. @throws Errno EINTR if the caller doesn't wait any longer */
template <class Condition>
void Await(std::unique_lock<std::mutex> &lock, std::condition_variable &changed,
           const Caller &caller, const Condition &holds)
{
    while (!changed.wait_for(lock, FileLock::InterruptTime, holds))
    {
        if (caller.IsInterrupted)
        {
            throw Errno(EINTR);
        }
    }
}

} // end empty namespace

FileLock::Alone FileLock::HaveAlone(const Caller &caller)
{
    std::unique_lock<std::mutex> lock(m_Mutex);
    Await(lock, m_Freed, caller, [this] { return IsFree(); });
    m_IsAlone = true;
    return Alone(*this, std::adopt_lock);
}

FileLock::Shared FileLock::Share(const Caller &caller)
{
    std::unique_lock<std::mutex> lock(m_Mutex);
    Await(lock, m_Freed, caller, [this] { return !m_IsAlone; });
    ++m_Sharing;
    return Shared(*this, std::adopt_lock);
}

void FileLock::Note()
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    ++m_Changes;
    m_Freed.notify_all();
}

uint64_t FileLock::Changes()
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    return m_Changes;
}

/** Frees it without a change, else two that wait would wake each other again and again. */
void FileLock::LetOthers(Alone &lock, const Caller &caller, const uint64_t seen,
                         const std::chrono::steady_clock::time_point end)
{
    {
        std::unique_lock<std::mutex> own(m_Mutex);
        lock.release();
        m_IsAlone = false;
        m_Freed.notify_all();
        m_Freed.wait_until(own, end, [&] { return m_Changes != seen; });
    }
    lock = HaveAlone(caller);
}

void FileLock::lock()
{
    std::unique_lock<std::mutex> lock(m_Mutex);
    m_Freed.wait(lock, [this] { return IsFree(); });
    m_IsAlone = true;
}

bool FileLock::try_lock()
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    const bool isFree = IsFree();
    m_IsAlone = m_IsAlone || isFree;
    return isFree;
}

void FileLock::unlock()
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    m_IsAlone = false;
    ++m_Changes;
    m_Freed.notify_all();
}

void FileLock::lock_shared()
{
    std::unique_lock<std::mutex> lock(m_Mutex);
    m_Freed.wait(lock, [this] { return !m_IsAlone; });
    ++m_Sharing;
}

void FileLock::unlock_shared()
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    if (--m_Sharing == 0)
    {
        m_Freed.notify_all();
    }
}

} // end namespace bbflow
