#include "SpillTable.h"

#include "Crc32c.h"

#include <array>
#include <cstring>
#include <stdexcept>

namespace bbflow
{

namespace
{

using Row64 = std::array<int64_t, 3>; // of a block: first byte, length, checksum
using End64 = std::array<int64_t, 3>; // version, number of rows, checksum

constexpr int64_t Version = 1;

/** Of a table without its checksum: with the file's name, so that another file in its place
 * differs. */
int64_t CheckOf(const std::string &path, const std::string_view table)
{
    const size_t name = path.rfind('/') + 1; // from the begin where there is none
    return Crc32c(table, Crc32c(std::string_view(path).substr(name)));
}

} // end empty namespace

SpillTable::SpillTable(const std::string &path, const std::string_view file)
{
    End64 end{};
    if (file.size() < sizeof end)
    {
        ThrowChanged(path);
    }
    std::memcpy(end.data(), file.data() + file.size() - sizeof end, sizeof end);
    const auto [version, count, check] = end;
    const size_t most = (file.size() - sizeof end) / sizeof(Row64);
    if (version != Version || count < 0 || static_cast<size_t>(count) > most)
    {
        ThrowChanged(path);
    }
    const size_t bytes = static_cast<size_t>(count) * sizeof(Row64);
    const std::string_view table = file.substr(file.size() - sizeof end - bytes);
    if (CheckOf(path, table.substr(0, table.size() - sizeof check)) != check)
    {
        ThrowChanged(path);
    }
    for (size_t i = 0; i < bytes; i += sizeof(Row64))
    {
        Row64 row;
        std::memcpy(row.data(), table.data() + i, sizeof row);
        Put(static_cast<size_t>(row[0]), static_cast<size_t>(row[1]),
            static_cast<uint32_t>(row[2]));
    }
}

bool SpillTable::IsIntact(const size_t place, const std::string_view block) const
{
    const auto row = m_Rows.find(place);
    return row != m_Rows.end() && row->second.Bytes == block.size() &&
           row->second.Check == Crc32c(block);
}

std::string SpillTable::Encoded(const std::string &path) const
{
    std::string table;
    const auto add = [&](const int64_t number)
    { table.append(reinterpret_cast<const char *>(&number), sizeof number); };
    for (const auto &[place, row] : m_Rows)
    {
        add(static_cast<int64_t>(place));
        add(static_cast<int64_t>(row.Bytes));
        add(row.Check);
    }
    add(Version);
    add(static_cast<int64_t>(m_Rows.size()));
    add(CheckOf(path, table));
    return table;
}

void SpillTable::ThrowChanged(const std::string &path)
{
    throw std::runtime_error("bbflow: " + path +
                             " isn't as a rank has spilled it: it was cut, changed or replaced");
}

} // end namespace bbflow
