#pragma once

#include "FuseSession.h"

#include <mutex>
#include <shared_mutex>

namespace bbflow
{

/** What the kernel keeps, and is made to forget. Masters are heard by threads of their own: before
 *  the kernel's session has begun, and when it has ended, there is nothing to forget. */
class KernelMemory
{
public:
    /** @param session nullptr when it ends: whoever uses it is waited for */
    void Take(FuseSession *session)
    {
        const std::unique_lock<std::shared_mutex> lock(m_Mutex);
        m_Session = session;
    }

    void ForgetAttributes(const FileId id) const
    {
        // Shared: the kernel may wait for an answer that needs another master's thread.
        const std::shared_lock<std::shared_mutex> lock(m_Mutex);
        if (m_Session != nullptr)
        {
            m_Session->Invalidate(id);
        }
    }

    void ForgetNames() const
    {
        const std::shared_lock<std::shared_mutex> lock(m_Mutex);
        if (m_Session != nullptr)
        {
            m_Session->InvalidateNames();
        }
    }

private:
    mutable std::shared_mutex m_Mutex;
    FuseSession *m_Session = nullptr;
};

} // end namespace bbflow
