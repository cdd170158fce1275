#pragma once

#include "Caller.h"
#include "Deadline.h"
#include "Errno.h"

#include <iostream>
#include <thread>

namespace bbflow
{

/** Waits for a node that is away, for this long and no longer. */
class Patience
{
public:
    explicit Patience(const double seconds) : m_Deadline(After(seconds)) {}

    /** Returns after a moment if trying again may help.
     *  @throws Errno the error itself if it is another one; EIO if the time is up; EINTR if the
     *          program doesn't wait any longer */
    void WaitFor(const Errno &error, const Caller &caller) const
    {
        if (error.Number() != EHOSTDOWN)
        {
            throw Errno(error);
        }
        if (caller.IsInterrupted)
        {
            throw Errno(EINTR);
        }
        if (IsOver(m_Deadline))
        {
            if (!error.Why().empty()) // the program is only told EIO
            {
                std::cerr << "bbflow-mount: " << error.Why() << std::endl;
            }
            throw Errno(EIO);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }

private:
    const Deadline m_Deadline;
};

} // end namespace bbflow
