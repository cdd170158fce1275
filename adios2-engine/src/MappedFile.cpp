#include "MappedFile.h"

#include "MapFlags.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace bbflow
{

MappedFile::MappedFile(std::string path) : m_Path(std::move(path))
{
    const int file = open(m_Path.c_str(), O_RDONLY | O_CLOEXEC);
    void *begin = MAP_FAILED;
    if (file >= 0 && fstat(file, &m_Status) == 0)
    {
        m_Bytes = static_cast<size_t>(m_Status.st_size);
        // mmap(2) takes no empty file; whoever asks At for something is told that it is one.
        begin =
            m_Bytes == 0 ? nullptr : mmap(nullptr, m_Bytes, PROT_READ, MapFlags(m_Status), file, 0);
    }
    const std::string reason = std::strerror(errno);
    if (file >= 0)
    {
        close(file);
    }
    if (begin == MAP_FAILED)
    {
        throw std::runtime_error("bbflow: can't map " + m_Path + " for reading (" + reason + ")");
    }
    m_Begin = static_cast<const char *>(begin);
}

MappedFile::~MappedFile() { munmap(const_cast<char *>(m_Begin), m_Bytes); }

const char *MappedFile::At(const size_t offset, const size_t bytes) const
{
    if (offset > m_Bytes || bytes > m_Bytes - offset)
    {
        throw std::runtime_error("bbflow: " + m_Path + " has " + std::to_string(m_Bytes) +
                                 " bytes, a block claims " + std::to_string(bytes) + " from " +
                                 std::to_string(offset) + " on");
    }
    return m_Begin + offset;
}

} // end namespace bbflow
