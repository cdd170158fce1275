#include "Gates.h"

#include <algorithm>
#include <csignal>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace bbflow
{

namespace
{

/** Some providers have more to do than their descriptors tell. */
constexpr int LongestWaitMilliseconds = 20;

} // end empty namespace

Gates::Gates() : m_Wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
    // Signals are the agent's own thread's.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    m_Thread = std::thread([this] { Run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Gates::~Gates()
{
    {
        const std::lock_guard<std::mutex> guard(m_Lock);
        m_IsOver = true;
    }
    Wake();
    m_Thread.join();
    close(m_Wakeup);
}

Gate &Gates::Open(const std::string &provider, const std::string &host)
{
    auto gate = std::make_shared<Gate>(provider, host);
    Gate &opened = *gate;
    {
        const std::lock_guard<std::mutex> guard(m_Lock);
        m_Gates.push_back(std::move(gate));
    }
    Wake();
    return opened;
}

void Gates::Close(Gate &gate)
{
    std::shared_ptr<Gate> closed;
    {
        const std::lock_guard<std::mutex> guard(m_Lock);
        const auto at = std::find_if(m_Gates.begin(), m_Gates.end(),
                                     [&](const auto &own) { return own.get() == &gate; });
        if (at != m_Gates.end())
        {
            closed = *at;
            m_Gates.erase(at);
        }
    }
    // Only when the thread has let go of it is it sure that nothing more gets into the pool.
    Wake();
    while (closed && closed.use_count() > 1)
    {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

std::vector<std::shared_ptr<Gate>> Gates::All()
{
    const std::lock_guard<std::mutex> guard(m_Lock);
    return m_Gates;
}

void Gates::Wake() const { eventfd_write(m_Wakeup, 1); }

void Gates::Run()
{
    while (true)
    {
        eventfd_t woken = 0;
        eventfd_read(m_Wakeup, &woken);
        {
            const std::lock_guard<std::mutex> guard(m_Lock);
            if (m_IsOver)
            {
                return;
            }
        }
        std::vector<std::shared_ptr<Gate>> all = All();
        std::vector<pollfd> waited{{m_Wakeup, POLLIN, 0}};
        bool mayWait = true;
        for (const auto &gate : all)
        {
            gate->Progress();
            const int descriptor = gate->Descriptor();
            mayWait = mayWait && descriptor >= 0;
            waited.push_back({descriptor, POLLIN, 0});
        }
        if (!mayWait)
        {
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        const bool hasNone = all.empty();
        all.clear(); // who closes a gate waits for that
        poll(waited.data(), waited.size(), !mayWait ? 0 : hasNone ? -1 : LongestWaitMilliseconds);
    }
}

} // end namespace bbflow
