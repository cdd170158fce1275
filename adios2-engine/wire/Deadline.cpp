#include "Deadline.h"

#include <algorithm>
#include <limits>

namespace bbflow
{

using Clock = std::chrono::steady_clock;

Deadline After(const double seconds)
{
    constexpr double forever = 1e9; // more doesn't fit the clock
    if (seconds < 0 || seconds > forever)
    {
        return std::nullopt;
    }
    return Clock::now() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

bool IsOver(const Deadline &deadline) { return deadline && Clock::now() >= *deadline; }

int MillisecondsUntil(const Deadline &deadline)
{
    if (!deadline)
    {
        return -1;
    }
    // Rounded up: with 0 poll would return at once, again and again, in the last millisecond.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
    return static_cast<int>(std::clamp<int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
}

Deadline Attempts::Begin()
{
    constexpr double lastSeconds = 5.0;
    m_IsLast = IsOver(m_Deadline);
    return m_IsLast ? After(lastSeconds) : m_Deadline;
}

} // end namespace bbflow
