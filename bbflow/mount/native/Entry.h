#pragma once

#include <cstdint>
#include <string>
#include <sys/stat.h>

namespace bbflow
{

/** Number of a file or directory; the root's is 1. */
using FileId = uint64_t;

/** The root of a master's subtree. */
inline FileId RootOf(const uint64_t master) { return (master << 48) + 1; }

/** The number of the master that knows a file. */
inline uint64_t MasterOf(const FileId id) { return id >> 48; }

/** A file that a lookup found. */
struct Entry
{
    FileId Id = 0;
    struct stat Attributes = {};
    /** Whether it was just made: the kernel has never heard of its number. */
    bool IsNew = false;
};

/** One name in a directory, of which only the inode's number and kind count. */
struct DirectoryEntry
{
    std::string Name;
    uint64_t Number = 0;
    mode_t Kind = 0;
};

/** What of a file's attributes a program changes. */
struct Change
{
    /** FATTR_ flags of what counts below. */
    uint32_t Valid = 0;
    uint32_t Mode = 0;
    uint32_t Uid = 0;
    uint32_t Gid = 0;
    uint64_t Size = 0;
    timespec Accessed = {};
    timespec Modified = {};
};

} // end namespace bbflow
