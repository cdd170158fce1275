#pragma once

#include "RegisteredMemory.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/stat.h>

namespace bbflow
{

/** A node's pool, mapped for writing. If its pages exist already, mapping them all at once keeps
 * page faults out of the steps. */
class Pool
{
public:
    /** Returns a pool's mapping, which all ranks of a process share: each further one would have a
     *  page table of its own to fill. Takes what the constructor takes.
     *  @throws std::runtime_error also if the file isn't the one that the node has made */
    static std::shared_ptr<Pool> Share(const std::string &path, size_t capacity);

    /** @throws std::runtime_error if the file can't be mapped or is shorter than `capacity` */
    Pool(const std::string &path, size_t capacity);
    ~Pool();
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    char *At(const size_t offset) { return m_Begin + offset; }
    const char *At(const size_t offset) const { return m_Begin + offset; }
    size_t Capacity() const { return m_Capacity; }

    /** Registers an extent for a GPU's writes, which stays registered for the next step: until
     * another one lies there, or the pool goes.
     *  @param home of the runtime's */
    std::shared_ptr<const RegisteredMemory> Register(std::shared_ptr<const GpuRuntime> runtime,
                                                     void *home, size_t offset, size_t bytes);

    /** Registers all extents again from now on: the file may have got other pages. */
    void Unregister();

    /** Whether the node's pool at a path is the file that is mapped. */
    bool IsAt(const std::string &path) const;

private:
    char *m_Begin;
    size_t m_Capacity;
    struct stat m_File = {};
    std::mutex m_Lock;
    std::map<size_t, std::shared_ptr<const RegisteredMemory>> m_Registered; // guarded by m_Lock
};

} // end namespace bbflow
