#pragma once

#include "Backings.h"
#include "Dispatch.h"
#include "Interrupts.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <set>

namespace bbflow
{

/** What a mount asks of the kernel. */
struct SessionOptions
{
    /** Whether the kernel may read local files by itself. */
    bool MayPassThrough = true;
};

/** Serves a mount with as many threads as have something to do. */
class FuseSession
{
public:
    FuseSession(int device, Files &files, const SessionOptions &options);

    /** Agrees with the kernel on what both can; must be called first.
     *  @throws std::runtime_error if the kernel is too old */
    void Begin();

    /** Serves until the file system is unmounted and nothing is open in it any more. */
    void Run();

    /** Lets `Run` end as soon as nothing is open and nobody waits, though the kernel may not be
     * done with it. */
    void EndWhenUnused();

    /** Makes the kernel forget what it knows of a file's attributes. */
    void Invalidate(FileId id);

private:
    const int m_Device;
    const SessionOptions m_Options;
    Files &m_Files;
    Backings m_Backings;
    Dispatch m_Dispatch;
    Interrupts m_Interrupts;
    std::mutex m_Mutex;
    std::condition_variable m_Changed;
    size_t m_Threads = 0;
    size_t m_Idle = 0;
    std::set<pthread_t> m_Running;
    bool m_MayEnd = false;
    std::atomic<bool> m_IsOver{false};

    fuse_init_out Agree(const fuse_init_in &offer);
    void Spawn();
    void Work();
    void Serve(const fuse_in_header &header, int device);
    bool MayLeave();
    bool Wait(int device, std::string &buffer);
};

} // end namespace bbflow
