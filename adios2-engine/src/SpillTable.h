#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace bbflow
{

/** What stands behind the blocks of a spill file: where they lie, and their checksums (FORMAT.md,
 *  "Spill directory"). */
class SpillTable
{
public:
    SpillTable() = default;

    /** Reads the table of a whole file.
     *  @throws std::runtime_error if the file isn't as a rank has left it there */
    SpillTable(const std::string &path, std::string_view file);

    void Put(const size_t place, const size_t bytes, const uint32_t check)
    {
        m_Rows[place] = {bytes, check};
    }

    /** Whether a block is as it was Put. */
    bool IsIntact(size_t place, std::string_view block) const;

    /** Its bytes in a file. */
    std::string Encoded(const std::string &path) const;

    /** @throws std::runtime_error always */
    [[noreturn]] static void ThrowChanged(const std::string &path);

private:
    struct Row
    {
        size_t Bytes;
        uint32_t Check;
    };
    std::map<size_t, Row> m_Rows; // by the block's first byte
};

} // end namespace bbflow
