#include "Crc32.h"

#include <array>

namespace bbflow
{

namespace
{

constexpr std::array<uint32_t, 256> MakeTable()
{
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i)
    {
        uint32_t remainder = i;
        for (int bit = 0; bit < 8; ++bit)
        {
            remainder = remainder & 1 ? 0xedb88320u ^ remainder >> 1 : remainder >> 1;
        }
        table[i] = remainder;
    }
    return table;
}

constexpr std::array<uint32_t, 256> Table = MakeTable();

} // end empty namespace

uint32_t Crc32(const std::string_view bytes)
{
    uint32_t crc = 0xffffffffu;
    for (const char byte : bytes)
    {
        crc = Table[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ crc >> 8;
    }
    return ~crc;
}

} // end namespace bbflow
