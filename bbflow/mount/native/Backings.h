#pragma once

#include "Files.h"

#include <mutex>
#include <unordered_map>

namespace bbflow
{

/** Which files the kernel reads and writes by itself (FUSE passthrough, Linux 6.9). All who have a
 *  file open at the same time must do it in the same way, by the same backing file: the first one
 *  decides. */
class Backings
{
public:
    explicit Backings(const int device) : m_Device(device) {}

    /** Whether the kernel offered it and the user wants it. */
    void Enable() { m_IsEnabled = true; }

    /** Opens a file in the way that counts for it now.
     *  @param file descriptor of a backing file; -1 if the program must ask for each byte
     *  @return the kernel's number of the backing file, 0 if there is none */
    int32_t Open(FileId id, int file);

    /** One open file less. */
    void Close(FileId id);

private:
    struct Way
    {
        int32_t Backing = 0;
        size_t Opens = 0;
    };

    const int m_Device;
    bool m_IsEnabled = false;
    std::mutex m_Mutex;
    std::unordered_map<FileId, Way> m_Ways;

    int32_t Register(int file);
};

} // end namespace bbflow
