#pragma once

#include "MountEntry.h"

#include <atomic>
#include <string>

namespace bbflow
{

/** How a mount is made. */
struct MountOptions
{
    /** An empty directory, as an absolute path. */
    std::string Directory;
    /** What `mount` shows as the source. */
    std::string Source = "bbflow";
    /** Whether other users may enter; the files' modes count for them, as always. */
    bool MayOthers = false;
    bool IsReadOnly = false;
};

/** A FUSE mount: by mount(2) as root, else by fusermount3, which hands over its descriptor. */
class Mounting
{
public:
    /** @throws std::runtime_error with what is missing */
    explicit Mounting(const MountOptions &options);
    ~Mounting();
    Mounting(const Mounting &) = delete;
    Mounting &operator=(const Mounting &) = delete;

    int Device() const { return m_Device; }

    /** Whether this process's tree of files has it still; another namespace's may have a copy. */
    bool IsInTree() const;

    /** Makes the kernel read so far ahead of a program, as far as this user may: by itself it
     *  reads 128 KiB, less than a request over a network should have. */
    void ReadAhead(size_t bytes) const;

    /** Takes the mount out of the tree; files that are open in it stay so until they are closed. */
    void Unmount();

    /** Someone else has unmounted it: what is mounted there now is none of ours. */
    void Forget() { m_IsMounted = false; }

private:
    const std::string m_Directory;
    /** Nothing if there is no /proc. */
    std::optional<MountEntry> m_Entry;
    int m_Device = -1;
    std::atomic<bool> m_IsMounted{false};
};

/** Takes the mount of bbflow's on a directory out of the tree, as root.
 *  @throws std::runtime_error if there is none, or a link leads there */
void UnmountAt(const std::string &directory);

} // end namespace bbflow
