#include "Crc32.h"

#include "CrcTable.h"

namespace bbflow
{

namespace
{

constexpr std::array<uint32_t, 256> Table = MakeCrcTable(0xedb88320u);

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
