#pragma once

#include <atomic>
#include <cstdint>

namespace bbflow
{

/** Who makes a call, and whether they still wait for it. */
struct Caller
{
    uint32_t Uid;
    uint32_t Gid;
    uint32_t Pid;
    /** Set when a signal ended the program's call: who waits gives up with EINTR. */
    const std::atomic<bool> &IsInterrupted;
};

} // end namespace bbflow
