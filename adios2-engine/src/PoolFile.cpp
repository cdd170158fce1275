#include "PoolFile.h"

#include <cstdio>
#include <linux/magic.h>
#include <stdexcept>
#include <sys/vfs.h>

namespace bbflow
{

namespace
{

bool IsSame(const std::string &path, const struct stat &file)
{
    struct stat found = {};
    return stat(path.c_str(), &found) == 0 && found.st_dev == file.st_dev &&
           found.st_ino == file.st_ino && found.st_size == file.st_size;
}

} // end empty namespace

bool IsPoolAt(const std::string &path, const struct stat &file)
{
    char capacity[32];
    std::snprintf(capacity, sizeof(capacity), ".%016lld", static_cast<long long>(file.st_size));
    return IsSame(path, file) && IsSame(path + capacity, file);
}

bool HasPages(const std::string &path)
{
    constexpr blkcnt_t unit = 512;
    struct stat found = {};
    struct statfs where = {};
    return stat(path.c_str(), &found) == 0 &&
           (found.st_blocks * unit >= found.st_size ||
            // Other file systems count blocks as they like.
            (statfs(path.c_str(), &where) == 0 && where.f_type != TMPFS_MAGIC));
}

void ThrowPoolLost(const std::string &path)
{
    throw std::runtime_error("bbflow: " + path +
                             " was removed, cut or replaced: what the BB node held is lost; start "
                             "it in another directory");
}

} // end namespace bbflow
