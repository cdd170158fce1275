#include "Checksum.h"

#include "Crc32.h"
#include "Crc32c.h"

namespace bbflow
{

namespace
{

std::string LittleEndian(const uint32_t value)
{
    std::string bytes(sizeof(value), '\0');
    for (size_t i = 0; i < bytes.size(); ++i)
    {
        bytes[i] = static_cast<char>(value >> (8 * i));
    }
    return bytes;
}

} // end empty namespace

std::string Checksum::OfFrame(const std::string_view payload)
{
    return LittleEndian(Crc32(payload));
}

std::string Checksum::OfRaw(const std::string_view raw) { return LittleEndian(Crc32c(raw)); }

} // end namespace bbflow
