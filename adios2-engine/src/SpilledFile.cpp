#include "SpilledFile.h"

namespace bbflow
{

SpilledFile::SpilledFile(const std::string &path)
: m_Path(path), m_File(path), m_Table(path, {m_File.At(0, m_File.Bytes()), m_File.Bytes()}),
  m_Changed(m_File.Status().st_mtim)
{
}

/** Sees what others do to a file that is mapped: to read what was cut off would end the process,
 * and blocks may have other bytes. One that is removed or replaced stays as it is. */
void SpilledFile::LookAtChanges()
{
    struct stat now = {};
    const struct stat &mapped = m_File.Status();
    if (stat(m_Path.c_str(), &now) != 0 || now.st_dev != mapped.st_dev ||
        now.st_ino != mapped.st_ino)
    {
        return;
    }
    if (now.st_size != mapped.st_size)
    {
        SpillTable::ThrowChanged(m_Path);
    }
    if (now.st_mtim.tv_sec != m_Changed.tv_sec || now.st_mtim.tv_nsec != m_Changed.tv_nsec)
    {
        m_Intact.clear();
        m_Changed = now.st_mtim;
    }
}

const char *SpilledFile::At(const size_t place, const size_t bytes)
{
    LookAtChanges();
    const char *const block = m_File.At(place, bytes);
    if (m_Intact.count(place) == 0)
    {
        if (!m_Table.IsIntact(place, {block, bytes}))
        {
            SpillTable::ThrowChanged(m_Path);
        }
        m_Intact.insert(place);
    }
    return block;
}

} // end namespace bbflow
