#pragma once

#include <array>
#include <cstdint>

namespace bbflow
{

/** What each value of a byte does to a CRC's remainder.
 *  @param polynomial with its bits reversed, as both CRCs here are computed */
constexpr std::array<uint32_t, 256> MakeCrcTable(const uint32_t polynomial)
{
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i)
    {
        uint32_t remainder = i;
        for (int bit = 0; bit < 8; ++bit)
        {
            remainder = remainder & 1 ? polynomial ^ remainder >> 1 : remainder >> 1;
        }
        table[i] = remainder;
    }
    return table;
}

} // end namespace bbflow
