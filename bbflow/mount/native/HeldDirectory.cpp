#include "HeldDirectory.h"

#include "Errno.h"

#include <fcntl.h>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace bbflow
{

namespace
{

constexpr mode_t OthersWrite = S_IWGRP | S_IWOTH;
constexpr int DirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/** Returns -1, and closes the descriptor, if it isn't of a directory that is this user's alone. */
int OwnOrClosed(const int directory)
{
    struct stat found = {};
    if (directory < 0 || (fstat(directory, &found) == 0 && found.st_uid == geteuid() &&
                          (found.st_mode & OthersWrite) == 0))
    {
        return directory;
    }
    close(directory);
    return -1;
}

} // end empty namespace

HeldDirectory::HeldDirectory(const std::string &path)
: m_Descriptor(OwnOrClosed(open(path.c_str(), DirectoryFlags)))
{
}

HeldDirectory::~HeldDirectory()
{
    if (m_Descriptor >= 0)
    {
        close(m_Descriptor);
    }
}

HeldDirectory::HeldDirectory(HeldDirectory &&other) noexcept
: m_Descriptor(std::exchange(other.m_Descriptor, -1))
{
}

HeldDirectory &HeldDirectory::operator=(HeldDirectory &&other) noexcept
{
    std::swap(m_Descriptor, other.m_Descriptor);
    return *this;
}

bool HeldDirectory::IsRemoved() const
{
    struct stat found = {};
    return fstat(m_Descriptor, &found) == 0 && found.st_nlink == 0;
}

HeldDirectory HeldDirectory::Below(const std::string &name) const
{
    HeldDirectory below;
    below.m_Descriptor = OwnOrClosed(openat(m_Descriptor, name.c_str(), DirectoryFlags));
    return below;
}

std::string HeldDirectory::PathOf(const std::string &name) const
{
    return "/proc/self/fd/" + std::to_string(m_Descriptor) + "/" + name;
}

int HeldDirectory::Open(const std::string &name, const int flags) const
{
    // O_NONBLOCK: a pipe in the place of a file must not hold anybody up
    const int file = Checked(
        openat(m_Descriptor, name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    struct stat found = {};
    if (fstat(file, &found) < 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid() ||
        found.st_nlink != 1)
    {
        close(file);
        throw Errno(EPERM);
    }
    return file;
}

int HeldDirectory::Make(const std::string &name) const
{
    const int file = Open(name, O_RDWR | O_CREAT);
    if (ftruncate(file, 0) < 0)
    {
        const int error = errno;
        close(file);
        throw Errno(error);
    }
    return file;
}

int OpenPlace(const std::string &path)
{
    const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int place = Checked(open(path.substr(0, 1) == "/" ? "/" : ".", flags));
    std::istringstream names(path);
    for (std::string name; std::getline(names, name, '/');)
    {
        if (name.empty() || name == ".")
        {
            continue;
        }
        const int next = openat(place, name.c_str(), flags);
        const int error = errno;
        close(place);
        if (next < 0)
        {
            throw Errno(error);
        }
        place = next;
    }
    return place;
}

} // end namespace bbflow
