#include "SpilledFile.h"

namespace bbflow
{

SpilledFile::SpilledFile(const std::string &path)
: m_Path(path), m_File(path), m_Table(path, {m_File.At(0, m_File.Bytes()), m_File.Bytes()})
{
}

const char *SpilledFile::At(const size_t place, const size_t bytes)
{
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
