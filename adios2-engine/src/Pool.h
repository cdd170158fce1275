#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <sys/types.h>

namespace bbflow
{

/** A node's pool, mapped for writing. If its pages exist already, mapping them all at once keeps
 * page faults out of the steps. */
class Pool
{
public:
    /** Gives a pool's mapping, which all ranks of a process share: each further one would have a
     *  page table of its own to fill. Takes what the constructor takes. */
    static std::shared_ptr<Pool> Share(const std::string &path, size_t capacity);

    /** @throws std::runtime_error if the file can't be mapped or is shorter than `capacity` */
    Pool(const std::string &path, size_t capacity);
    ~Pool();
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    char *At(const size_t offset) { return m_Begin + offset; }
    const char *At(const size_t offset) const { return m_Begin + offset; }
    size_t Capacity() const { return m_Capacity; }

    /** Whether the file at a path is the one that is mapped. */
    bool IsAt(const std::string &path) const;

private:
    char *m_Begin;
    size_t m_Capacity;
    dev_t m_Device = 0;
    ino_t m_Inode = 0;
};

} // end namespace bbflow
