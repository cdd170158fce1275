#pragma once

#include "Files.h"

#include <condition_variable>
#include <mutex>
#include <sys/stat.h>
#include <unordered_map>

namespace bbflow
{

/** How the kernel is to read and write a file that is being opened. */
struct Passage
{
    /** The kernel's number of the backing file; 0 if there is none. */
    int32_t Backing = 0;
    /** Whether the program must be asked all the same: the backing file has other bytes. */
    bool IsAsked = false;
};

/** Which files the kernel reads and writes by itself (FUSE passthrough, Linux 6.9). As long as
 *  anybody has a file open by a backing file, the kernel wants everybody to name that one: who
 * needs other bytes, as a writer does, asks the program for them nevertheless. */
class Backings
{
public:
    explicit Backings(const int device) : m_Device(device) {}

    /** Whether the kernel offered it and the user wants it. */
    void Enable() { m_IsEnabled = true; }

    /** Opens a file.
     *  @param file descriptor of a backing file; -1 if the program must be asked for each byte */
    Passage Open(FileId id, int file);

    /** Waits until nobody has a file open by a backing file, and lets nobody until it is closed
     *  once more. Who may map a file into memory for writing needs that: the kernel would map the
     *  backing file.
     *  @throws Errno EBUSY if somebody keeps it open */
    void OpenUnbacked(FileId id);

    /** One open file less. */
    void Close(FileId id);

private:
    struct Way
    {
        int32_t Backing = 0;
        struct stat File = {};
        size_t Opens = 0;
    };

    const int m_Device;
    bool m_IsEnabled = false;
    std::mutex m_Mutex;
    std::condition_variable m_Closed;
    std::unordered_map<FileId, Way> m_Ways;

    int32_t Register(int file);
};

} // end namespace bbflow
