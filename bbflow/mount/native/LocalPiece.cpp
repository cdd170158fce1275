#include "LocalPiece.h"

#include "Errno.h"

#include <sys/sendfile.h>
#include <unistd.h>

namespace bbflow
{

LocalPiece::~LocalPiece() { close(m_Descriptor); }

size_t LocalPiece::Read(const Caller &, char *target, const size_t most, const uint64_t offset)
{
    size_t have = 0;
    while (have < most)
    {
        const ssize_t n = Checked(
            pread(m_Descriptor, target + have, most - have, static_cast<off_t>(offset + have)));
        if (n == 0)
        {
            break;
        }
        have += static_cast<size_t>(n);
    }
    return have;
}

void LocalPiece::Write(const Caller &, const std::string_view bytes, const uint64_t offset)
{
    for (size_t done = 0; done < bytes.size();)
    {
        done += static_cast<size_t>(
            Checked(pwrite(m_Descriptor, bytes.data() + done, bytes.size() - done,
                           static_cast<off_t>(offset + done))));
    }
}

void LocalPiece::Cut(const Caller &, const uint64_t bytes)
{
    Checked(ftruncate(m_Descriptor, static_cast<off_t>(bytes)));
}

void CopyBytes(const int from, const int to, const uint64_t bytes)
{
    off_t offset = 0;
    while (static_cast<uint64_t>(offset) < bytes)
    {
        const ssize_t n =
            Checked(sendfile(to, from, &offset, bytes - static_cast<uint64_t>(offset)));
        if (n == 0)
        {
            break; // what lies behind the source's end are zeros
        }
    }
    Checked(ftruncate(to, static_cast<off_t>(bytes)));
}

} // end namespace bbflow
