#pragma once

#include "FuseKernel.h"

#include <atomic>
#include <string_view>

namespace bbflow
{

/** How one thread takes the kernel's requests and answers them. */
class KernelRequests
{
public:
    virtual ~KernelRequests() = default;

    /** Waits for a request.
     *  @param isOver whether to give up when a signal comes
     *  @return its header with its body behind it, until the next call; nullptr if none comes */
    virtual const fuse_in_header *Wait(const std::atomic<bool> &isOver) = 0;

    /** After Wait gave none: whether no thread will get one any more. */
    virtual bool IsAtEnd() const { return true; }

    /** Answers the request; it may be sent with the next Wait only. */
    virtual void Answer(const fuse_out_header &header, std::string_view head,
                        std::string_view tail) = 0;

    /** Memory for an answer's bytes, from where they are sent without one more copy. The request's
     *  header is still there, its body may not be. */
    virtual char *Room(size_t bytes) = 0;
};

/** No request carries more bytes to write, or asks for more to read. */
constexpr uint32_t MostBytes = 1u << 20;

} // end namespace bbflow
