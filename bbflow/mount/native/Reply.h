#pragma once

#include "Files.h"
#include "FuseKernel.h"

#include <string_view>

namespace bbflow
{

/** Answers one request; each may be answered once. */
class Reply
{
public:
    Reply(const int device, const uint64_t unique) : m_Device(device), m_Unique(unique) {}

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

    bool IsSent() const { return m_IsSent; }

private:
    const int m_Device;
    const uint64_t m_Unique;
    bool m_IsSent = false;

    void Write(int error, std::string_view head, std::string_view tail);
};

fuse_attr ToKernel(const struct stat &attributes);

/** An entry that the kernel must ask for again each time. */
fuse_entry_out ToKernel(const Entry &entry);

} // end namespace bbflow
