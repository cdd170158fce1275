#include "MountWatch.h"

#include <array>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace bbflow
{

MountWatch::MountWatch(Mounting &mounting, FuseSession &session, const sigset_t &signals)
: m_Mounting(mounting), m_Session(session), m_Signals(signals),
  m_Signal(signalfd(-1, &signals, SFD_CLOEXEC)), m_Table(open(MountTable, O_RDONLY | O_CLOEXEC)),
  m_Stop(eventfd(0, EFD_CLOEXEC)), m_Thread([this] { Run(); })
{
}

MountWatch::~MountWatch()
{
    eventfd_write(m_Stop, 1);
    m_Thread.join();
    for (const int descriptor : {m_Signal, m_Table, m_Stop})
    {
        close(descriptor);
    }
}

void MountWatch::Run()
{
    // The table says by an error that it has changed.
    std::array<pollfd, 3> watched = {pollfd{m_Signal, POLLIN, 0}, pollfd{m_Table, POLLPRI, 0},
                                     pollfd{m_Stop, POLLIN, 0}};
    while (m_Mounting.IsInTree())
    {
        poll(watched.data(), watched.size(), -1);
        if (watched[2].revents != 0)
        {
            return;
        }
        if (watched[0].revents != 0)
        {
            signalfd_siginfo taken;
            [[maybe_unused]] const ssize_t n = read(m_Signal, &taken, sizeof(taken));
            m_Mounting.Unmount();
            pthread_sigmask(SIG_UNBLOCK, &m_Signals, nullptr);
            break;
        }
    }
    m_Session.EndWhenUnused();
    poll(&watched[2], 1, -1);
}

} // end namespace bbflow
