#pragma once

#include "MappedFile.h"
#include "SpillTable.h"

#include <cstddef>
#include <set>
#include <string>

namespace bbflow
{

/** A spill file for reading. */
class SpilledFile
{
public:
    /** @throws std::runtime_error if it can't be mapped, or isn't as a rank has left it there */
    explicit SpilledFile(const std::string &path);

    /** Where a block is.
     *  @throws std::runtime_error if it isn't as it was spilled, also since it was mapped */
    const char *At(size_t place, size_t bytes);

private:
    const std::string m_Path;
    const MappedFile m_File;
    const SpillTable m_Table;
    std::set<size_t> m_Intact; // first bytes of the blocks that were looked at
    timespec m_Changed;        // when the file was changed last before that

    void LookAtChanges();
};

} // end namespace bbflow
