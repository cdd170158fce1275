#pragma once

#include "Entry.h"

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

/** Which files the kernel reads and writes by itself (FUSE passthrough, Linux 6.9), by its numbers.
 * As long as anybody has a file open by a backing file, the kernel wants everybody to name that
 * one: who needs other bytes, as a writer does, asks the program for them nevertheless. */
class Backings
{
public:
    explicit Backings(const int device) : m_Device(device) {}

    /** Whether the kernel offered it and the user wants it. */
    void Enable() { m_IsEnabled = true; }

    /** Opens a file.
     *  @param file descriptor of a backing file; -1 if the program must be asked for each byte */
    Passage Open(uint64_t node, int file);

    /** Lets no one open a file by a backing file until it is closed again. Who may map a file
     *  into memory for writing needs that: the kernel would map the backing file.
     *  @return false if somebody has it open by one: then nothing has happened */
    bool TryOpenUnbacked(uint64_t node);

    bool IsBacked(uint64_t node);

    /** Whether somebody has it open whom the kernel may give bytes that it keeps. */
    bool IsCached(uint64_t node);

    /** One open file less. */
    void Close(uint64_t node);

private:
    struct OpenNode
    {
        int32_t Backing = 0;
        struct stat File = {};
        size_t Opens = 0;
    };

    const int m_Device;
    bool m_IsEnabled = false;
    std::mutex m_Mutex;
    std::unordered_map<uint64_t, OpenNode> m_Open;

    bool IsBackedLocked(uint64_t node) const;
    int32_t Register(int file);
};

} // end namespace bbflow
