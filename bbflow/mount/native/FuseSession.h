#pragma once

#include "Dispatch.h"
#include "Interrupts.h"
#include "RingRequests.h"
#include "Wakefulness.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <set>

namespace bbflow
{

/** What a mount asks of the kernel. */
struct SessionOptions
{
    /** Whether the kernel may read local files by itself. */
    bool MayPassThrough = true;
    /** Whether processors may not sleep while programs make calls. */
    bool KeepsAwake = false;
};

/** Serves a mount with as many threads as have something to do. */
class FuseSession
{
public:
    FuseSession(int device, NodeFiles &files, const SessionOptions &options);

    /** Agrees with the kernel on what both can; must be called first.
     *  @throws std::runtime_error if the kernel is too old */
    void Begin();

    /** Serves until the file system is unmounted and nothing is open in it any more. */
    void Run();

    /** Makes `Run` end as soon as nothing is open and no call waits, though the kernel may not be
     * done with it. */
    void EndWhenUnused();

    /** Makes the kernel forget what it knows of a file's attributes. */
    void Invalidate(FileId id);

    /** Makes the kernel ask for each name again, also for those that it is just being told.
     *  @return whether it can (Linux 6.16). Older ones forget a single name only, and wait for its
     *  directory's lock, which a call has that may itself wait until this is answered. */
    bool InvalidateNames();

private:
    /** Threads that take requests from one place. */
    struct Lane
    {
        /** Whose programs' requests come over io_uring; none for /dev/fuse. */
        std::optional<uint16_t> Processor;
        /** For the first thread. */
        std::unique_ptr<KernelRequests> First;
        size_t Idle = 0;
        /** Threads that were started and didn't begin, or never will. */
        size_t Coming = 0;
    };

    const int m_Device;
    const SessionOptions m_Options;
    NodeFiles &m_Files;
    Backings m_Backings;
    NodeIds m_Nodes;
    KnownNodes m_Known;
    Dispatch m_Dispatch;
    Interrupts m_Interrupts;
    std::optional<Wakefulness> m_Wakefulness;
    std::mutex m_Mutex;
    std::condition_variable m_Changed;
    std::deque<Lane> m_Lanes;
    size_t m_Threads = 0;
    size_t m_Idle = 0;
    bool m_LacksThreads = false;
    std::set<pthread_t> m_Running;
    bool m_MayEnd = false;
    std::atomic<bool> m_IsOver{false};

    void Invalidate(uint64_t node, int64_t offset);
    bool Notify(int32_t code, std::string_view what);
    fuse_init_out Agree(const fuse_init_in &offer);
    bool MakeRings();
    std::unique_ptr<KernelRequests> RequestsOf(Lane &lane) const;
    void Spawn(Lane &lane);
    void Work(Lane &lane);
    void ServeAll(Lane &lane, KernelRequests &requests);
    void Serve(const fuse_in_header &header, KernelRequests &requests);
    bool MayLeave(const Lane &lane);
};

} // end namespace bbflow
