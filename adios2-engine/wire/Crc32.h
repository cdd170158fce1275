#pragma once

#include <cstdint>
#include <string_view>

namespace bbflow
{

/** CRC-32 (ISO 3309, as in zlib). */
uint32_t Crc32(std::string_view bytes);

} // end namespace bbflow
