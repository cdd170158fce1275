#pragma once

#include <optional>
#include <string>

namespace bbflow
{

/** What is mounted, as the kernel tells this process; a change wakes who polls it. */
constexpr const char *MountTable = "/proc/self/mountinfo";

/** One mount in this process's tree of files. A path says where a mount is now; its number, with
 * its device, which mount it is: who may rename a directory on the path can't change these. */
struct MountEntry
{
    std::string Number;
    std::string Device;
    std::string Point;
    std::string Type;

    /** Whether it is this very mount; the kernel gives numbers again. */
    bool Is(const MountEntry &other) const
    {
        return Number == other.Number && Device == other.Device;
    }

    /** Whether a program of bbflow's serves it, or served it. */
    bool IsBbflow() const { return Type == "fuse.bbflow"; }
};

/** Returns the mount that an open directory is in; nothing without /proc. */
std::optional<MountEntry> EntryOf(int directory);

/** Returns a mount as it is now; nothing if the tree hasn't it any more. */
std::optional<MountEntry> EntryNow(const MountEntry &entry);

/** Takes a mount out of the tree, as root, wherever its directory has been moved to.
 *  @throws Errno if a link leads there, or its path changes again and again */
void DetachEntry(const MountEntry &entry);

} // end namespace bbflow
