#include "FuseSession.h"

#include "DeviceRequests.h"
#include "NodeFiles.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <iostream>
#include <stdexcept>
#include <sys/uio.h>
#include <thread>
#include <utility>

namespace bbflow
{

namespace
{

/** Calls that wait, for room or for a file, keep their threads. */
constexpr size_t MostThreads = 512;
constexpr size_t IdleThreads = 8;
/** A request that finds no thread waiting at its processor's io_uring is given to the one that
 * answers next, not to one that comes: so others come early. */
constexpr size_t SpareThreads = 8;
constexpr uint16_t MostBackground = 64;
/** A signal that makes a thread look up from its read; it means nothing else. */
constexpr int Wake = SIGUSR1;
constexpr std::chrono::milliseconds EndPause{20};

constexpr uint64_t Wanted = FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES |
                            FUSE_EXPLICIT_INVAL_DATA | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO |
                            FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS | FUSE_HANDLE_KILLPRIV_V2 |
                            FUSE_MAX_PAGES | FUSE_CACHE_SYMLINKS | FUSE_INIT_EXT |
                            FUSE_DIRECT_IO_ALLOW_MMAP;

} // end empty namespace

FuseSession::FuseSession(const int device, NodeFiles &files, const SessionOptions &options)
: m_Device(device), m_Options(options), m_Files(files), m_Backings(device),
  m_Dispatch(files, m_Backings, m_Nodes, m_Known,
             [this](const uint64_t node, const int64_t offset) { Invalidate(node, offset); })
{
    if (options.KeepsAwake)
    {
        m_Wakefulness.emplace();
    }
}

void FuseSession::Begin()
{
    const std::atomic<bool> never{false};
    auto first = std::make_unique<DeviceRequests>(m_Device);
    const fuse_in_header *header = first->Wait(never);
    if (header == nullptr || header->opcode != FUSE_INIT)
    {
        throw std::runtime_error("bbflow: the kernel didn't begin to talk on /dev/fuse");
    }
    const Request request(*header, never);
    Reply reply(*first, header->unique);
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
    m_Dispatch.SetForgetsNames(InvalidateNames());
    m_Lanes.push_front({std::nullopt, std::move(first)});
}

/** What can't be had otherwise fails here, before the kernel counts on it. */
bool FuseSession::MakeRings()
{
    std::deque<Lane> lanes;
    try
    {
        for (uint16_t processor = 0; processor < RingRequests::Processors(); ++processor)
        {
            lanes.push_back({processor, std::make_unique<RingRequests>(m_Device, processor)});
        }
    }
    catch (const std::runtime_error &)
    {
        return false; // io_uring is forbidden here: all come by /dev/fuse
    }
    m_Lanes = std::move(lanes);
    return true;
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
    m_Dispatch.SetDirectWrites((offered & FUSE_DIRECT_IO_ALLOW_MMAP) != 0); // of the same version
    if ((offered & FUSE_OVER_IO_URING) != 0 && MakeRings())
    {
        agreed |= FUSE_OVER_IO_URING;
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
    for (Lane &lane : m_Lanes) // that of /dev/fuse first: nothing is served without it
    {
        Spawn(lane);
    }
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

/** With m_Mutex locked. If no thread can be made, those that are there serve on.
 *  @throws std::runtime_error if there are none */
void FuseSession::Spawn(Lane &lane)
{
    ++m_Threads;
    ++lane.Coming;
    try
    {
        std::thread([this, &lane] { Work(lane); }).detach();
    }
    catch (const std::exception &error)
    {
        --m_Threads;
        --lane.Coming;
        const std::string said =
            std::string("bbflow-mount: no thread can be made: ") + error.what();
        if (m_Threads == 0)
        {
            throw std::runtime_error(said);
        }
        if (!std::exchange(m_LacksThreads, true))
        {
            std::cerr << said << "; calls wait for those that are there" << std::endl;
        }
    }
}

std::unique_ptr<KernelRequests> FuseSession::RequestsOf(Lane &lane) const
{
    if (lane.First)
    {
        return std::move(lane.First);
    }
    if (lane.Processor)
    {
        return std::make_unique<RingRequests>(m_Device, *lane.Processor);
    }
    return std::make_unique<DeviceRequests>(m_Device);
}

void FuseSession::Work(Lane &lane)
{
    try
    {
        const std::unique_ptr<KernelRequests> requests = RequestsOf(lane);
        ServeAll(lane, *requests);
    }
    catch (const std::exception &error)
    {
        std::cerr << error.what() << std::endl; // then there are fewer threads
    }
    const std::lock_guard<std::mutex> lock(m_Mutex);
    m_Running.erase(pthread_self());
    --m_Threads;
    m_Changed.notify_all();
}

void FuseSession::ServeAll(Lane &lane, KernelRequests &requests)
{
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        m_Running.insert(pthread_self());
        --lane.Coming;
    }
    do
    {
        {
            const std::lock_guard<std::mutex> lock(m_Mutex);
            ++m_Idle;
            ++lane.Idle;
        }
        const fuse_in_header *header = requests.Wait(m_IsOver);
        {
            const std::lock_guard<std::mutex> lock(m_Mutex);
            --m_Idle;
            --lane.Idle;
            m_IsOver = m_IsOver || (header == nullptr && requests.IsAtEnd());
            const size_t spare = lane.Processor ? SpareThreads : 1;
            if (header != nullptr && lane.Idle + lane.Coming < spare && !m_IsOver &&
                m_Threads < MostThreads)
            {
                Spawn(lane);
            }
        }
        if (header == nullptr)
        {
            break;
        }
        if (m_Wakefulness)
        {
            m_Wakefulness->Note();
        }
        Serve(*header, requests);
    } while (!MayLeave(lane));
}

/** Whether enough other threads wait for requests. The kernel lets none go that waits for those of
 *  a processor. */
bool FuseSession::MayLeave(const Lane &lane)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    return !lane.Processor && lane.Idle >= IdleThreads;
}

void FuseSession::Serve(const fuse_in_header &header, KernelRequests &requests)
{
    Reply reply(requests, header.unique);
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
    for (const uint64_t node : m_Nodes.NodesOf(id))
    {
        Invalidate(node, -1); // the data stay: each open asks for its version
    }
}

/** @param offset forgotten are the bytes from there on; -1 for none */
void FuseSession::Invalidate(const uint64_t node, const int64_t offset)
{
    fuse_notify_inval_inode_out what{};
    what.ino = node;
    what.off = offset;
    const bool isThere =
        Notify(FUSE_NOTIFY_INVAL_INODE, {reinterpret_cast<const char *>(&what), sizeof(what)});
    if (!isThere && m_Known.Drop(node))
    {
        // The kernel may just be taking it in again, with what it was told before.
        std::this_thread::sleep_for(
            std::chrono::duration<double>(m_Files.KeptSecs(NodeIds::FileOf(node))));
    }
}

bool FuseSession::InvalidateNames() { return Notify(FUSE_NOTIFY_INC_EPOCH, {}); }

/** @return false if the kernel doesn't know what this is about */
bool FuseSession::Notify(const int32_t code, const std::string_view what)
{
    fuse_out_header header{};
    header.len = static_cast<uint32_t>(sizeof(header) + what.size());
    header.error = code;
    const std::array<iovec, 2> parts = {iovec{&header, sizeof(header)},
                                        iovec{const_cast<char *>(what.data()), what.size()}};
    return writev(m_Device, parts.data(), parts.size()) >= 0;
}

} // end namespace bbflow
