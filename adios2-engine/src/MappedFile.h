#pragma once

#include <cstddef>
#include <string>
#include <sys/stat.h>

namespace bbflow
{

/** A file mapped for reading: a node's pool or spilled blocks. */
class MappedFile
{
public:
    /** @param path the file; all its pages are mapped at once, which keeps page faults out of reads
     *  @throws std::runtime_error if it can't be mapped */
    explicit MappedFile(std::string path);
    ~MappedFile();
    MappedFile(const MappedFile &) = delete;
    MappedFile &operator=(const MappedFile &) = delete;

    /** Where a part of the file is. @throws std::runtime_error if the file has no such part */
    const char *At(size_t offset, size_t bytes) const;

    size_t Bytes() const { return m_Bytes; }

    const std::string &Path() const { return m_Path; }

    /** What fstat(2) has said of it. */
    const struct stat &Status() const { return m_Status; }

private:
    std::string m_Path;
    const char *m_Begin = nullptr;
    struct stat m_Status = {};
    size_t m_Bytes = 0;
};

} // end namespace bbflow
