#include "RingRequests.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace bbflow
{

namespace
{

/** In front of the payload: the request's header, and the opcode's struct. */
constexpr size_t FrontBytes = 4096;
/** With room for a command of 80 bytes behind the entry's own fields. */
constexpr size_t EntryBytes = 128;
constexpr const char *PossibleProcessors = "/sys/devices/system/cpu/possible";

[[noreturn]] void Throw(const char *call)
{
    throw std::runtime_error(std::string("bbflow: ") + call + " fails: " + std::strerror(errno));
}

/** Else the scheduler would rather wake it on an idle processor, which takes longer than a call. */
void StayOn(const uint16_t processor)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof(one), &one); // where it may not, it runs anywhere
}

} // end empty namespace

/** What an io_uring shares with the kernel: one entry to submit, and its completion. */
class RingRequests::Queues
{
public:
    Queues()
    {
        // Only the thread that waits is ever busy with it; who that is, is said when it begins.
        m_Params.flags = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER |
                         IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED;
        m_Ring = static_cast<int>(syscall(SYS_io_uring_setup, 1, &m_Params));
        if (m_Ring < 0)
        {
            Throw("io_uring_setup");
        }
        m_Bytes =
            std::max<size_t>(m_Params.sq_off.array + sizeof(uint32_t),
                             m_Params.cq_off.cqes + m_Params.cq_entries * sizeof(io_uring_cqe));
        m_Shared = Map(m_Bytes, IORING_OFF_SQ_RING);
        m_Entry = Map(EntryBytes, IORING_OFF_SQES);
        if (m_Shared == nullptr || m_Entry == nullptr)
        {
            Close();
            Throw("mmap of an io_uring");
        }
    }
    ~Queues() { Close(); }
    Queues(const Queues &) = delete;
    Queues &operator=(const Queues &) = delete;

    /** From now on the calling thread alone uses it. */
    void Begin()
    {
        syscall(SYS_io_uring_register, m_Ring, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
    }

    /** The entry that Push submits, with zeros. */
    io_uring_sqe &Entry()
    {
        std::memset(m_Entry, 0, EntryBytes);
        return *reinterpret_cast<io_uring_sqe *>(m_Entry);
    }

    void Push()
    {
        Word(m_Params.sq_off.array) = 0;
        uint32_t &tail = Word(m_Params.sq_off.tail);
        // Last: from now on the kernel may read the entry.
        __atomic_store_n(&tail, tail + 1, __ATOMIC_RELEASE);
    }

    /** Submits what was pushed, and waits for a completion or a signal.
     *  @return whether there is a completion @throws std::runtime_error if there never will be */
    bool Wait()
    {
        const uint32_t taken = __atomic_load_n(&Word(m_Params.sq_off.head), __ATOMIC_ACQUIRE);
        const uint32_t pushed = Word(m_Params.sq_off.tail) - taken;
        const long n =
            syscall(SYS_io_uring_enter, m_Ring, pushed, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
        if (n < 0 && errno != EINTR)
        {
            Throw("io_uring_enter");
        }
        const uint32_t tail = __atomic_load_n(&Word(m_Params.cq_off.tail), __ATOMIC_ACQUIRE);
        return tail != Word(m_Params.cq_off.head);
    }

    /** The result of the completion that is there. */
    int32_t Take()
    {
        uint32_t &head = Word(m_Params.cq_off.head);
        const auto *entries =
            reinterpret_cast<const io_uring_cqe *>(m_Shared + m_Params.cq_off.cqes);
        const int32_t result = entries[head & (m_Params.cq_entries - 1)].res;
        __atomic_store_n(&head, head + 1, __ATOMIC_RELEASE);
        return result;
    }

private:
    io_uring_params m_Params{};
    int m_Ring = -1;
    size_t m_Bytes = 0;
    char *m_Shared = nullptr;
    char *m_Entry = nullptr;

    char *Map(const size_t bytes, const off_t what) const
    {
        void *address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m_Ring, what);
        return address == MAP_FAILED ? nullptr : static_cast<char *>(address);
    }

    void Close()
    {
        if (m_Shared != nullptr)
        {
            munmap(m_Shared, m_Bytes);
        }
        if (m_Entry != nullptr)
        {
            munmap(m_Entry, EntryBytes);
        }
        close(m_Ring);
    }

    uint32_t &Word(const uint32_t offset) const
    {
        return *reinterpret_cast<uint32_t *>(m_Shared + offset);
    }
};

RingRequests::RingRequests(const int device, const uint16_t processor)
: m_Device(device), m_Processor(processor), m_Queues(std::make_unique<Queues>()),
  m_Buffer(static_cast<char *>(std::aligned_alloc(FrontBytes, FrontBytes + MostBytes)), std::free),
  m_Payload(m_Buffer.get() + FrontBytes),
  m_Parts{iovec{&m_Header, sizeof(m_Header)}, iovec{m_Payload, MostBytes}}
{
}

RingRequests::~RingRequests() = default;

uint16_t RingRequests::Processors()
{
    std::string ranges; // such as 0-3,8-11
    std::ifstream(PossibleProcessors) >> ranges;
    const size_t last = ranges.find_last_of("-,");
    const std::string highest = last == std::string::npos ? ranges : ranges.substr(last + 1);
    return static_cast<uint16_t>(highest.empty() ? std::thread::hardware_concurrency()
                                                 : std::stoul(highest) + 1);
}

/** Sends the answer, if there is one, and asks for the next request. */
void RingRequests::Submit()
{
    io_uring_sqe &entry = m_Queues->Entry();
    entry.opcode = IORING_OP_URING_CMD;
    entry.fd = m_Device;
    entry.cmd_op = m_HasBegun ? FUSE_IO_URING_CMD_COMMIT_AND_FETCH : FUSE_IO_URING_CMD_REGISTER;
    entry.addr = reinterpret_cast<uint64_t>(m_Parts.data());
    entry.len = m_Parts.size();
    fuse_uring_cmd_req command{};
    command.qid = m_Processor;
    command.commit_id = m_Header.ring_ent_in_out.commit_id;
    char *const place = reinterpret_cast<char *>(&entry) + offsetof(io_uring_sqe, addr3);
    std::memcpy(place, &command, sizeof(command));
    m_Queues->Push();
}

const fuse_in_header *RingRequests::Wait(const std::atomic<bool> &isOver)
{
    if (!m_HasBegun)
    {
        StayOn(m_Processor);
        m_Queues->Begin();
    }
    Submit();
    while (!m_Queues->Wait())
    {
        if (isOver)
        {
            m_IsAtEnd = true;
            return nullptr;
        }
    }
    const int32_t result = m_Queues->Take();
    if (result < 0)
    {
        m_IsAtEnd = m_HasBegun || result == -ENOTCONN;
        if (result != -ENOTCONN)
        {
            std::cerr << "bbflow-mount: the kernel gives no requests over io_uring: "
                      << std::strerror(-result) << std::endl;
        }
        return nullptr;
    }
    m_HasBegun = true;
    return Request();
}

/** Puts the parts of the request in one row, as they are read from /dev/fuse. */
const fuse_in_header *RingRequests::Request()
{
    fuse_in_header header{};
    std::memcpy(&header, m_Header.in_out, sizeof(header));
    const size_t own = header.len - sizeof(header) - m_Header.ring_ent_in_out.payload_sz;
    char *const body = m_Payload - std::min<size_t>(own, FUSE_URING_OP_IN_OUT_SZ);
    std::memcpy(body, m_Header.op_in, static_cast<size_t>(m_Payload - body));
    std::memcpy(body - sizeof(header), &header, sizeof(header));
    return reinterpret_cast<const fuse_in_header *>(body - sizeof(header));
}

void RingRequests::Answer(const fuse_out_header &header, const std::string_view head,
                          const std::string_view tail)
{
    std::memcpy(m_Header.in_out, &header, sizeof(header));
    if (head.data() != m_Payload)
    {
        std::memcpy(m_Payload, head.data(), head.size());
    }
    std::memcpy(m_Payload + head.size(), tail.data(), tail.size());
    m_Header.ring_ent_in_out.payload_sz = static_cast<uint32_t>(head.size() + tail.size());
}

} // end namespace bbflow
