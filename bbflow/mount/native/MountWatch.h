#pragma once

#include "FuseSession.h"
#include "Mounting.h"

#include <csignal>
#include <thread>

namespace bbflow
{

/** Unmounts at a signal, and lets the session end once the mount is gone from this process's tree.
 *
 *  The kernel alone doesn't tell: where another namespace has a copy of the mount (a container, `ip
 * netns exec`), the file system lives on there.
 */
class MountWatch
{
public:
    /** @param signals those that end the mount: the first one unmounts, the second one ends the
     * process; they must be blocked in all threads */
    MountWatch(Mounting &mounting, FuseSession &session, const sigset_t &signals);
    ~MountWatch();
    MountWatch(const MountWatch &) = delete;
    MountWatch &operator=(const MountWatch &) = delete;

private:
    Mounting &m_Mounting;
    FuseSession &m_Session;
    const sigset_t m_Signals;
    int m_Signal = -1;
    int m_Table = -1;
    int m_Stop = -1;
    std::thread m_Thread;

    void Run();
};

} // end namespace bbflow
