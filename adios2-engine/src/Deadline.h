#pragma once

#include <chrono>
#include <optional>

namespace bbflow
{

/** Until when to wait; nothing means for ever. */
using Deadline = std::optional<std::chrono::steady_clock::time_point>;

/** Gives the time point `seconds` from now; negative seconds mean for ever. */
Deadline After(double seconds);

/** Whether a deadline has passed. */
bool IsOver(const Deadline &deadline);

/** What is left, for poll(2): -1 means for ever. */
int MillisecondsUntil(const Deadline &deadline);

} // end namespace bbflow
