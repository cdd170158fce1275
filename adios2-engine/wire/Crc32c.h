#pragma once

#include <cstdint>
#include <string_view>

namespace bbflow
{

/** CRC-32C (Castagnoli, RFC 3720) of the bytes; with the CPU's own instruction where it has one.
 *  @param before the CRC of the bytes before these */
uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

/** The same without the instruction. */
uint32_t PortableCrc32c(std::string_view bytes, uint32_t before = 0);

} // end namespace bbflow
