#include "Mounting.h"

#include "Errno.h"
#include "HeldDirectory.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace bbflow
{

namespace
{

[[noreturn]] void Throw(const std::string &what, const int error)
{
    throw std::runtime_error("bbflow: " + what + " (" + std::strerror(error) + ")");
}

std::string OptionsOf(const MountOptions &options)
{
    return std::string("default_permissions") + (options.MayOthers ? ",allow_other" : "");
}

int OpenDevice()
{
    const int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0)
    {
        Throw("can't open /dev/fuse: load the kernel module fuse, or run the container with "
              "--device /dev/fuse",
              errno);
    }
    return device;
}

/** As root. Gives -1 if the kernel doesn't let this user. */
int MountByKernel(const MountOptions &options)
{
    int place = -1;
    try
    {
        place = OpenPlace(options.Directory);
    }
    catch (const Errno &error)
    {
        Throw(
            "there is no directory to mount on, or a link on the way, which root doesn't follow: " +
                options.Directory,
            error.Number());
    }
    const int device = OpenDevice();
    const std::string words = "fd=" + std::to_string(device) +
                              ",rootmode=40000,user_id=" + std::to_string(geteuid()) +
                              ",group_id=" + std::to_string(getegid()) + "," + OptionsOf(options);
    const unsigned long flags =
        MS_NOSUID | MS_NODEV | (options.IsReadOnly ? static_cast<unsigned long>(MS_RDONLY) : 0ul);
    const std::string held = "/proc/self/fd/" + std::to_string(place);
    const int failed =
        mount(options.Source.c_str(), held.c_str(), "fuse.bbflow", flags, words.c_str());
    const int error = errno;
    close(place);
    if (failed == 0)
    {
        return device;
    }
    close(device);
    if (error != EPERM)
    {
        Throw("can't mount on " + options.Directory, error);
    }
    return -1;
}

/** Runs fusermount3 with a socket to hand something over by; gives its exit status. */
int RunFusermount(const std::vector<std::string> &words, const int socket)
{
    std::vector<char *> arguments;
    for (const std::string &word : words)
    {
        arguments.push_back(const_cast<char *>(word.c_str()));
    }
    arguments.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0)
    {
        if (socket >= 0)
        {
            fcntl(socket, F_SETFD, 0);
            setenv("_FUSE_COMMFD", std::to_string(socket).c_str(), 1);
        }
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, nullptr);
        execvp(arguments[0], arguments.data());
        _exit(127);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
    {
    }
    return child < 0 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

/** Opens what is mounted on a directory, as a place. Root follows no link: whoever may write on the
 *  way could lead it to another mount. @throws Errno */
int OpenMounted(const std::string &directory)
{
    return geteuid() == 0 ? OpenPlace(directory)
                          : Checked(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

std::optional<MountEntry> EntryAt(const std::string &directory)
{
    const int place = OpenMounted(directory);
    std::optional<MountEntry> entry = EntryOf(place);
    close(place);
    return entry;
}

/** Takes a mount out of the tree, by the same right that made it; fusermount3 looks at it first. */
void Detach(const std::optional<MountEntry> &entry, const std::string &directory)
{
    if (geteuid() == 0 && entry)
    {
        DetachEntry(*entry);
        return;
    }
    RunFusermount({"fusermount3", "-u", "-q", "-z", "--", directory}, -1);
}

/** A mount whose server was killed answers ENOTCONN to everything, and ECONNABORTED or ECANCELED
 *  while the kernel takes its io_urings down; it makes way for the new one. */
void RemoveDeadMount(const std::string &directory)
{
    struct statvfs status = {}; // what stat(2) says may be what the kernel still knows
    if (statvfs(directory.c_str(), &status) == 0 ||
        (errno != ENOTCONN && errno != ECONNABORTED && errno != ECANCELED))
    {
        return;
    }
    const std::optional<MountEntry> entry = EntryAt(directory);
    if (!entry || entry->IsBbflow())
    {
        Detach(entry, directory);
    }
}

int ReceiveDescriptor(const int socket)
{
    char byte = 0;
    iovec part = {&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) <= 0)
    {
        return -1;
    }
    const cmsghdr *header = CMSG_FIRSTHDR(&message);
    int received = -1;
    if (header != nullptr && header->cmsg_type == SCM_RIGHTS)
    {
        std::memcpy(&received, CMSG_DATA(header), sizeof(received));
    }
    return received;
}

int MountByFusermount(const MountOptions &options)
{
    std::array<int, 2> sockets = {};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) < 0)
    {
        Throw("can't make a socket", errno);
    }
    const std::string words = OptionsOf(options) + ",subtype=bbflow,fsname=" + options.Source +
                              ",nosuid,nodev" + (options.IsReadOnly ? ",ro" : "");
    const int status =
        RunFusermount({"fusermount3", "-o", words, "--", options.Directory}, sockets[0]);
    close(sockets[0]);
    const int device = status == 0 ? ReceiveDescriptor(sockets[1]) : -1;
    close(sockets[1]);
    if (status == 127)
    {
        throw std::runtime_error("bbflow: only root may mount without fusermount3: apt install "
                                 "fuse3, or ask your administrator");
    }
    if (device < 0)
    {
        throw std::runtime_error("bbflow: fusermount3 can't mount on " + options.Directory +
                                 ": see its message above");
    }
    return device;
}

} // end empty namespace

Mounting::Mounting(const MountOptions &options) : m_Directory(options.Directory)
{
    RemoveDeadMount(m_Directory);
    m_Device = geteuid() == 0 ? MountByKernel(options) : -1;
    if (m_Device < 0)
    {
        m_Device = MountByFusermount(options);
    }
    m_IsMounted = true;
    m_Entry = EntryAt(m_Directory);
    if (m_Entry && !m_Entry->IsBbflow())
    {
        close(m_Device); // its mount is dead by that
        Throw("someone has moved the directory while it was mounted on: " + m_Directory, ESTALE);
    }
}

Mounting::~Mounting()
{
    Unmount();
    close(m_Device);
}

bool Mounting::IsInTree() const
{
    return !m_Entry || EntryNow(*m_Entry); // without /proc the kernel's word must do
}

void Mounting::ReadAhead(const size_t bytes) const
{
    if (m_Entry)
    {
        std::ofstream("/sys/class/bdi/" + m_Entry->Device + "/read_ahead_kb")
            << bytes / 1024 << std::flush;
    }
}

void Mounting::Unmount()
{
    if (!m_IsMounted.exchange(false))
    {
        return;
    }
    try
    {
        Detach(m_Entry, m_Directory);
    }
    catch (const Errno &error)
    {
        std::cerr << "bbflow-mount: " << m_Directory << " stays mounted: " << error.what()
                  << std::endl;
    }
}

void UnmountAt(const std::string &directory)
{
    try
    {
        const std::optional<MountEntry> entry = EntryAt(directory);
        if (!entry || !entry->IsBbflow())
        {
            throw std::runtime_error("bbflow: " + directory + " isn't a mount of bbflow");
        }
        DetachEntry(*entry);
    }
    catch (const Errno &error)
    {
        Throw("can't unmount " + directory + ", or a link is on the way, which root doesn't follow",
              error.Number());
    }
}

} // end namespace bbflow
