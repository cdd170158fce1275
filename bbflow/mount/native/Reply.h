#pragma once

#include "Entry.h"
#include "KernelRequests.h"

#include <string_view>

namespace bbflow
{

/** Answers one request; each may be answered once. */
class Reply
{
public:
    Reply(KernelRequests &requests, const uint64_t unique) : m_Requests(requests), m_Unique(unique)
    {
    }

    /** Answers with up to two parts of bytes. */
    void Send(std::string_view head = {}, std::string_view tail = {});

    /** Answers with a struct of the protocol. */
    template <class T>
    void SendStruct(const T &answer)
    {
        Send({reinterpret_cast<const char *>(&answer), sizeof(answer)});
    }

    /** Answers that the call failed. */
    void Fail(int number);

    /** Memory for bytes to send (KernelRequests). */
    char *Room(const size_t bytes) { return m_Requests.Room(bytes); }

private:
    KernelRequests &m_Requests;
    const uint64_t m_Unique;

    void Write(int error, std::string_view head, std::string_view tail);
};

fuse_attr ToKernel(const struct stat &attributes);

/** An entry.
 *  @param node the kernel's number of it
 *  @param validSecs how long the attributes count
 *  @param nameSecs how long the name does */
fuse_entry_out ToKernel(const Entry &entry, uint64_t node, double validSecs, double nameSecs);

/** An answer with attributes, which count for this long. */
fuse_attr_out ToKernel(const struct stat &attributes, double validSecs);

} // end namespace bbflow
