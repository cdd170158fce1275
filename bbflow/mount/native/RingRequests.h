#pragma once

#include "KernelRequests.h"

#include <array>
#include <memory>
#include <sys/uio.h>

struct io_uring_params;
struct io_uring_sqe;

namespace bbflow
{

/** Requests that the programs of one processor make, over io_uring (Linux 6.14, where the kernel's
 *  parameter fuse.enable_uring allows it). An answer and the wait for the next request are one
 * call, and no other processor is woken for either. */
class RingRequests final : public KernelRequests
{
public:
    /** @throws std::runtime_error if the kernel has no io_uring for this user */
    RingRequests(int device, uint16_t processor);
    ~RingRequests() override;
    RingRequests(const RingRequests &) = delete;
    RingRequests &operator=(const RingRequests &) = delete;

    /** How many processors the kernel may ever have: it wants somebody to wait for each. */
    static uint16_t Processors();

    /** Only one thread may wait, always the same. */
    const fuse_in_header *Wait(const std::atomic<bool> &isOver) override;
    bool IsAtEnd() const override { return m_IsAtEnd; }
    void Answer(const fuse_out_header &header, std::string_view head,
                std::string_view tail) override;
    char *Room(size_t) override { return m_Payload; }

private:
    class Queues;

    const int m_Device;
    const uint16_t m_Processor;
    std::unique_ptr<Queues> m_Queues;
    /** The kernel's header, and an own one with the opcode's struct in front of the payload. */
    fuse_uring_req_header m_Header{};
    std::unique_ptr<char, void (*)(void *)> m_Buffer;
    char *const m_Payload;
    std::array<iovec, 2> m_Parts;
    bool m_HasBegun = false;
    bool m_IsAtEnd = false;

    void Submit();
    const fuse_in_header *Request();
};

} // end namespace bbflow
