#pragma once

#include <string>
#include <string_view>

namespace bbflow
{

/** The 32 bytes of SHA-256 (FIPS 180-4). */
std::string Sha256(std::string_view bytes);

/** The 32 bytes of HMAC-SHA-256 (RFC 2104). */
std::string HmacSha256(std::string_view key, std::string_view text);

} // end namespace bbflow
