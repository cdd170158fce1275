#include "Crc32c.h"

#include "CrcTable.h"

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#define BBFLOW_HAS_SSE42
#include <nmmintrin.h>
#endif

namespace bbflow
{

namespace
{

constexpr std::array<uint32_t, 256> CastagnoliTable = MakeCrcTable(0x82f63b78u);

uint32_t TakeByte(const uint32_t crc, const uint8_t byte)
{
    return CastagnoliTable[(crc ^ byte) & 0xff] ^ crc >> 8;
}

#if defined(BBFLOW_HAS_SSE42)

/** Length of each of the three lanes that are computed side by side: the instruction takes three
 * cycles, but one can start in each. With a page for each the CPU sees three streams to prefetch,
 * which is twice as fast as 1 KiB on memory that is in no cache. */
constexpr size_t LaneBytes = 4096;

/** What LaneBytes of zeros do to a remainder. It is linear, so that a table for each byte of the
 * remainder is enough. */
class LaneShift
{
public:
    LaneShift()
    {
        for (size_t at = 0; at < 4; ++at)
        {
            for (size_t bit = 0; bit < 8; ++bit)
            {
                const uint32_t shifted = AfterZeros(uint32_t{1} << (8 * at + bit));
                for (size_t value = 0; value < 256; ++value)
                {
                    m_Tables[at][value] ^= value >> bit & 1 ? shifted : 0;
                }
            }
        }
    }

    uint32_t operator()(const uint32_t crc) const
    {
        return m_Tables[0][crc & 0xff] ^ m_Tables[1][crc >> 8 & 0xff] ^
               m_Tables[2][crc >> 16 & 0xff] ^ m_Tables[3][crc >> 24];
    }

private:
    std::array<std::array<uint32_t, 256>, 4> m_Tables{};

    static uint32_t AfterZeros(uint32_t crc)
    {
        for (size_t i = 0; i < LaneBytes; ++i)
        {
            crc = TakeByte(crc, 0);
        }
        return crc;
    }
};

__attribute__((target("sse4.2"))) inline uint64_t TakeWord(const uint64_t crc, const char *bytes)
{
    uint64_t word;
    std::memcpy(&word, bytes, sizeof(word));
    return _mm_crc32_u64(crc, word);
}

__attribute__((target("sse4.2"))) uint32_t HardwareCrc32c(const std::string_view bytes,
                                                          const uint32_t before)
{
    static const LaneShift shift;
    uint64_t crc = ~before;
    size_t i = 0;
    for (; i + 3 * LaneBytes <= bytes.size(); i += 3 * LaneBytes)
    {
        const char *lane = bytes.data() + i;
        // They begin at 0: what stands before them is moved over them below, for it is linear.
        uint64_t second = 0;
        uint64_t third = 0;
        for (const char *end = lane + LaneBytes; lane < end; lane += 8)
        {
            crc = TakeWord(crc, lane);
            second = TakeWord(second, lane + LaneBytes);
            third = TakeWord(third, lane + 2 * LaneBytes);
        }
        const uint32_t firstTwo = shift(static_cast<uint32_t>(crc)) ^ static_cast<uint32_t>(second);
        crc = shift(firstTwo) ^ static_cast<uint32_t>(third);
    }
    for (; i + 8 <= bytes.size(); i += 8)
    {
        crc = TakeWord(crc, bytes.data() + i);
    }
    for (; i < bytes.size(); ++i)
    {
        crc = _mm_crc32_u8(static_cast<uint32_t>(crc), static_cast<uint8_t>(bytes[i]));
    }
    return ~static_cast<uint32_t>(crc);
}

#endif

} // end empty namespace

uint32_t PortableCrc32c(const std::string_view bytes, const uint32_t before)
{
    uint32_t crc = ~before;
    for (const char byte : bytes)
    {
        crc = TakeByte(crc, static_cast<uint8_t>(byte));
    }
    return ~crc;
}

uint32_t Crc32c(const std::string_view bytes, const uint32_t before)
{
#if defined(BBFLOW_HAS_SSE42)
    static const bool hasInstruction = __builtin_cpu_supports("sse4.2");
    if (hasInstruction)
    {
        return HardwareCrc32c(bytes, before);
    }
#endif
    return PortableCrc32c(bytes, before);
}

} // end namespace bbflow
