#pragma once

#include <chrono>
#include <optional>

namespace bbflow
{

/** Until when to wait; nothing means for ever. */
using Deadline = std::optional<std::chrono::steady_clock::time_point>;

/** Returns the time point `seconds` from now; negative seconds mean for ever. */
Deadline After(double seconds);

/** Whether a deadline has passed. */
bool IsOver(const Deadline &deadline);

/** What is left, for poll(2): -1 means for ever. */
int MillisecondsUntil(const Deadline &deadline);

/** Attempts until a deadline, and a last one if it passed within an attempt: a process that was
 *  stopped meanwhile has not waited. */
class Attempts
{
public:
    explicit Attempts(const double seconds) : m_Deadline(After(seconds)) {}

    /** Begins an attempt; gives until when it may take. */
    Deadline Begin();

    /** Whether no attempt follows the one that was begun. */
    bool IsLast() const { return m_IsLast; }

private:
    const Deadline m_Deadline;
    bool m_IsLast = false;
};

} // end namespace bbflow
