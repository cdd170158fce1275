#include "SpillFile.h"

#include "Arena.h"
#include "Crc32c.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <unistd.h>
#include <utility>

namespace bbflow
{

SpillFile::SpillFile(const std::string &directory, const std::string &stream, const size_t step,
                     const size_t rank)
: m_Phase(stream), m_File(-1)
{
    const std::string name =
        directory + "/" + NameOf(stream) + "." + std::to_string(step) + "." + std::to_string(rank);
    m_Path = name + ".spill";
    // Another run of this stream's name may have a file there, which is not ours to replace.
    for (size_t number = 1; !Open(O_CREAT | O_EXCL); ++number)
    {
        m_Path = name + "-" + std::to_string(number) + ".spill";
    }
}

std::string SpillFile::NameOf(const std::string &stream)
{
    std::string name;
    for (const char letter : stream)
    {
        name += letter == '/' ? "%2F" : letter == '%' ? "%25" : std::string(1, letter);
    }
    return name;
}

bool SpillFile::Open(const int flags)
{
    m_File = open(m_Path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0600);
    if (m_File < 0 && errno != EEXIST)
    {
        ThrowError();
    }
    return m_File >= 0;
}

SpillFile::~SpillFile()
{
    if (m_File >= 0)
    {
        close(m_File);
    }
    if (!m_Stays)
    {
        unlink(m_Path.c_str());
    }
}

size_t SpillFile::Take(const size_t bytes)
{
    const size_t offset = m_Used;
    m_Used += Arena::Padded(bytes);
    return offset;
}

void SpillFile::Land(const char *source, const size_t bytes, const size_t offset, Scan &scan)
{
    constexpr size_t pieceBytes = size_t{1} << 20;
    if (m_File < 0)
    {
        Open(0); // it was finished, but then a block of a lost node came back
    }
    uint32_t check = 0;
    for (size_t i = 0; i < bytes; i += pieceBytes)
    {
        const size_t n = std::min(pieceBytes, bytes - i);
        scan.See(source + i, n);
        check = Crc32c({source + i, n}, check); // now: the piece is in the cache
        Write(source + i, n, offset + i);
    }
    m_Table.Put(offset, bytes, check);
}

void SpillFile::Write(const char *bytes, const size_t n, const size_t offset)
{
    for (size_t done = 0; done < n;)
    {
        const ssize_t written = pwrite(m_File, bytes + done, n - done, offset + done);
        if (written < 0 && errno != EINTR)
        {
            ThrowError();
        }
        done += static_cast<size_t>(std::max<ssize_t>(written, 0));
    }
}

void SpillFile::Finish()
{
    if (m_File >= 0)
    {
        const std::string table = m_Table.Encoded(m_Path);
        Write(table.data(), table.size(), m_Used);
        if (close(std::exchange(m_File, -1)) != 0)
        {
            ThrowError();
        }
    }
    m_Phase.End();
}

void SpillFile::ThrowError() const
{
    throw std::runtime_error("bbflow: can't spill to " + m_Path + " (" + std::strerror(errno) +
                             "): see SpillDirectory");
}

} // end namespace bbflow
