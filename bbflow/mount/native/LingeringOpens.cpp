#include "LingeringOpens.h"

#include "OpenInode.h"

#include <algorithm>

namespace bbflow
{

namespace
{

constexpr std::chrono::seconds Lingering{1};

} // end empty namespace

void LingeringOpens::Add(const FileId id, std::shared_ptr<OpenInode> state, const int64_t handle)
{
    if (state->TryCloseReading(handle, true))
    {
        return; // what is read once should make room for what comes next
    }
    const std::lock_guard<std::mutex> lock(m_Mutex);
    m_Opens.push_back({id, std::move(state), handle, Clock::now() + Lingering});
}

void LingeringOpens::CloseOld()
{
    const Clock::time_point now = Clock::now();
    CloseIf([&](const Open &open) { return open.Until <= now; });
}

void LingeringOpens::Close(const FileId id)
{
    CloseIf([&](const Open &open) { return open.Id == id; });
}

void LingeringOpens::CloseAll()
{
    CloseIf([](const Open &) { return true; });
}

void LingeringOpens::CloseIf(const std::function<bool(const Open &)> &isMeant)
{
    std::deque<Open> meant;
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        const auto rest = std::stable_partition(m_Opens.begin(), m_Opens.end(),
                                                [&](const Open &open) { return !isMeant(open); });
        std::move(rest, m_Opens.end(), std::back_inserter(meant));
        m_Opens.erase(rest, m_Opens.end());
    }
    for (Open &open : meant)
    {
        if (!open.State->TryCloseReading(open.Handle, false))
        {
            const std::lock_guard<std::mutex> lock(m_Mutex);
            m_Opens.push_back(std::move(open));
        }
    }
}

} // end namespace bbflow
