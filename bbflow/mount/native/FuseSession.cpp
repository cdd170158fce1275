#include "FuseSession.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <stdexcept>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>

namespace bbflow
{

namespace
{

constexpr uint32_t MostBytes = 1u << 20;
constexpr size_t BufferBytes = MostBytes + 4096;
/** Calls that wait, for room or for a file, keep their threads. */
constexpr size_t MostThreads = 512;
constexpr size_t IdleThreads = 8;
constexpr uint16_t MostBackground = 64;
/** A signal that makes a thread look up from its read; it means nothing else. */
constexpr int Wake = SIGUSR1;
constexpr std::chrono::milliseconds EndPause{20};

constexpr uint64_t Wanted = FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES |
                            FUSE_EXPLICIT_INVAL_DATA | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO |
                            FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS | FUSE_HANDLE_KILLPRIV_V2 |
                            FUSE_MAX_PAGES | FUSE_CACHE_SYMLINKS | FUSE_INIT_EXT;

const fuse_in_header &HeaderIn(const std::string &buffer)
{
    return *reinterpret_cast<const fuse_in_header *>(buffer.data());
}

/** A descriptor with a queue of its own, so that threads don't wait for each other. */
int CloneOf(const int device)
{
    const int clone = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    auto number = static_cast<uint32_t>(device);
    if (clone >= 0 && ioctl(clone, FUSE_DEV_IOC_CLONE, &number) < 0)
    {
        close(clone);
        return -1;
    }
    return clone;
}

} // end empty namespace

FuseSession::FuseSession(const int device, Files &files, const SessionOptions &options)
: m_Device(device), m_Options(options), m_Files(files), m_Backings(device),
  m_Dispatch(files, m_Backings)
{
}

void FuseSession::Begin()
{
    std::string buffer(BufferBytes, '\0');
    if (!Wait(m_Device, buffer) || HeaderIn(buffer).opcode != FUSE_INIT)
    {
        throw std::runtime_error("bbflow: the kernel didn't begin to talk on /dev/fuse");
    }
    const std::atomic<bool> never{false};
    const Request request(HeaderIn(buffer), never);
    Reply reply(m_Device, HeaderIn(buffer).unique);
    // Kernels before 5.17 send fewer words; the buffer has zeros there.
    const auto &offer = *reinterpret_cast<const fuse_init_in *>(request.Body().data());
    if (offer.major != FUSE_KERNEL_VERSION || offer.minor < 28)
    {
        reply.Fail(EPROTO);
        throw std::runtime_error("bbflow: the kernel speaks FUSE " + std::to_string(offer.major) +
                                 "." + std::to_string(offer.minor) +
                                 ", 7.28 is needed: Linux 4.20 or newer");
    }
    reply.SendStruct(Agree(offer));
}

fuse_init_out FuseSession::Agree(const fuse_init_in &offer)
{
    uint64_t offered = offer.flags;
    if ((offer.flags & FUSE_INIT_EXT) != 0)
    {
        offered |= static_cast<uint64_t>(offer.flags2) << 32;
    }
    uint64_t agreed = offered & Wanted;
    fuse_init_out reply{};
    reply.major = FUSE_KERNEL_VERSION;
    reply.minor = std::min<uint32_t>(offer.minor, FUSE_KERNEL_MINOR_VERSION);
    if (m_Options.MayPassThrough && (offered & FUSE_PASSTHROUGH) != 0)
    {
        agreed |= FUSE_PASSTHROUGH;
        SetStackDepth(reply, 1);
        m_Backings.Enable();
    }
    reply.flags = static_cast<uint32_t>(agreed);
    reply.flags2 = static_cast<uint32_t>(agreed >> 32);
    reply.max_readahead = std::max(offer.max_readahead, MostBytes);
    reply.max_background = MostBackground;
    reply.congestion_threshold = MostBackground * 3 / 4;
    reply.max_write = MostBytes;
    reply.max_pages = static_cast<uint16_t>(MostBytes / 4096);
    reply.time_gran = 1;
    return reply;
}

void FuseSession::Run()
{
    struct sigaction wake = {};
    wake.sa_handler = [](int) {};
    sigaction(Wake, &wake, nullptr);
    std::unique_lock<std::mutex> lock(m_Mutex);
    Spawn();
    m_Changed.wait(lock, [this] { return m_Threads == 0 || m_MayEnd; });
    while (m_Threads > 0)
    {
        m_IsOver = m_IsOver || (m_Idle == m_Threads && !m_Dispatch.HasOpen());
        for (const pthread_t thread : m_Running)
        {
            if (m_IsOver)
            {
                pthread_kill(thread, Wake); // again and again: it may just not wait yet
            }
        }
        m_Changed.wait_for(lock, EndPause);
    }
}

void FuseSession::EndWhenUnused()
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    m_MayEnd = true;
    m_Changed.notify_all();
}

/** With m_Mutex locked. */
void FuseSession::Spawn()
{
    ++m_Threads;
    std::thread([this] { Work(); }).detach();
}

/** Waits for a request; false if there will be none any more. */
bool FuseSession::Wait(const int device, std::string &buffer)
{
    while (true)
    {
        const ssize_t n = read(device, buffer.data(), buffer.size());
        if (n >= static_cast<ssize_t>(sizeof(fuse_in_header)))
        {
            return true;
        }
        // ENOENT: the call was interrupted before it was read.
        if (m_IsOver || n >= 0 || (errno != EINTR && errno != EAGAIN && errno != ENOENT))
        {
            return false;
        }
    }
}

void FuseSession::Work()
{
    const int clone = CloneOf(m_Device);
    const int device = clone >= 0 ? clone : m_Device;
    std::string buffer(BufferBytes, '\0');
    while (true)
    {
        {
            const std::lock_guard<std::mutex> lock(m_Mutex);
            m_Running.insert(pthread_self());
            ++m_Idle;
        }
        const bool hasRequest = Wait(device, buffer);
        {
            const std::lock_guard<std::mutex> lock(m_Mutex);
            --m_Idle;
            m_IsOver = m_IsOver || !hasRequest;
            if (m_Idle == 0 && !m_IsOver && m_Threads < MostThreads)
            {
                Spawn();
            }
        }
        if (!hasRequest)
        {
            break;
        }
        Serve(HeaderIn(buffer), device);
        if (MayLeave())
        {
            break;
        }
    }
    if (clone >= 0)
    {
        close(clone);
    }
    const std::lock_guard<std::mutex> lock(m_Mutex);
    m_Running.erase(pthread_self());
    --m_Threads;
    m_Changed.notify_all();
}

/** Whether enough other threads wait for requests. */
bool FuseSession::MayLeave()
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    return m_Idle >= IdleThreads;
}

void FuseSession::Serve(const fuse_in_header &header, const int device)
{
    Reply reply(device, header.unique);
    if (header.opcode == FUSE_INTERRUPT)
    {
        const auto &in = *reinterpret_cast<const fuse_interrupt_in *>(&header + 1);
        if (!m_Interrupts.Interrupt(in.unique))
        {
            reply.Fail(EAGAIN); // the kernel sends it again if the call still lasts
        }
        return;
    }
    if (header.opcode == FUSE_DESTROY)
    {
        reply.Send();
        return;
    }
    Interrupts::Scope scope(m_Interrupts, header.unique);
    m_Dispatch.Handle(Request(header, scope.IsInterrupted), reply);
}

void FuseSession::Invalidate(const FileId id)
{
    fuse_notify_inval_inode_out what{};
    what.ino = id;
    what.off = -1; // the data stay: each open asks for its version
    fuse_out_header header{};
    header.len = sizeof(header) + sizeof(what);
    header.error = FUSE_NOTIFY_INVAL_INODE;
    const std::array<iovec, 2> parts = {iovec{&header, sizeof(header)}, iovec{&what, sizeof(what)}};
    // ENOENT: the kernel doesn't know the file.
    [[maybe_unused]] const ssize_t n = writev(m_Device, parts.data(), parts.size());
}

} // end namespace bbflow
