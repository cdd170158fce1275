#pragma once

#include "Errno.h"
#include "Files.h"

#include <fcntl.h>
#include <unistd.h>

namespace bbflow
{

/** A local file that is open. */
class DescriptorFile final : public OpenFile
{
public:
    /** @param descriptor is closed with it */
    explicit DescriptorFile(const int descriptor) : m_Descriptor(descriptor) {}
    ~DescriptorFile() override { close(m_Descriptor); }
    DescriptorFile(const DescriptorFile &) = delete;
    DescriptorFile &operator=(const DescriptorFile &) = delete;

    size_t Read(const Caller &, char *target, const size_t most, const uint64_t offset) override
    {
        return static_cast<size_t>(
            Checked(pread(m_Descriptor, target, most, static_cast<off_t>(offset))));
    }

    size_t Write(const Caller &, const std::string_view bytes, const uint64_t offset) override
    {
        return static_cast<size_t>(
            Checked(pwrite(m_Descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset))));
    }

    void Flush(const Caller &) override {}
    void Sync(const Caller &) override { Checked(fsync(m_Descriptor)); }

    void Allocate(const Caller &, const int mode, const uint64_t offset,
                  const uint64_t bytes) override
    {
        Checked(
            fallocate(m_Descriptor, mode, static_cast<off_t>(offset), static_cast<off_t>(bytes)));
    }

    uint64_t Seek(const Caller &, const uint64_t offset, const int whence) override
    {
        return static_cast<uint64_t>(
            Checked(lseek(m_Descriptor, static_cast<off_t>(offset), whence)));
    }

    int Backing() const override { return m_Descriptor; }

private:
    const int m_Descriptor;
};

} // end namespace bbflow
