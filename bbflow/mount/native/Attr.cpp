#include "Attr.h"

#include <stdexcept>

namespace bbflow
{

namespace
{

constexpr int64_t Second = 1000000000;

timespec TimeAt(const Value &attr, const char *key)
{
    const int64_t nanoseconds = attr.IntegerAt(key);
    const int64_t rest = (nanoseconds % Second + Second) % Second;
    return {static_cast<time_t>((nanoseconds - rest) / Second), static_cast<long>(rest)};
}

mode_t TypeOf(const std::string &kind)
{
    if (kind == "f")
    {
        return S_IFREG;
    }
    if (kind == "d")
    {
        return S_IFDIR;
    }
    if (kind == "l")
    {
        return S_IFLNK;
    }
    throw std::runtime_error("bbflow: a master speaks of a file of the unknown kind " + kind);
}

} // end empty namespace

Attr AttrFrom(const Value &attr)
{
    Attr made;
    struct stat &stat = made.File.Attributes;
    const Value *master = attr.Find("master");
    made.File.Id = master != nullptr && !master->IsNil() ? RootOf(master->AsUnsigned())
                                                         : attr.UnsignedAt("ino");
    made.Version = attr.UnsignedAt("version");
    stat.st_ino = made.File.Id;
    stat.st_mode = TypeOf(attr.StringAt("kind")) | static_cast<mode_t>(attr.UnsignedAt("mode"));
    stat.st_uid = static_cast<uid_t>(attr.UnsignedAt("uid"));
    stat.st_gid = static_cast<gid_t>(attr.UnsignedAt("gid"));
    stat.st_nlink = attr.UnsignedAt("nlink");
    stat.st_size = attr.IntegerAt("size");
    stat.st_blocks = (stat.st_size + 511) / 512;
    stat.st_blksize = 1 << 20;
    stat.st_atim = TimeAt(attr, "atime_ns");
    stat.st_mtim = TimeAt(attr, "mtime_ns");
    stat.st_ctim = TimeAt(attr, "ctime_ns");
    return made;
}

} // end namespace bbflow
