#include "SharedLanding.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace bbflow
{

namespace
{

/** So much is copied in one go. It stays in the first cache together with what is fetched ahead. */
constexpr size_t TileBytes = 16384;

#if defined(__SSE2__)

constexpr size_t lineBytes = 64;

/** Copies a line of the cache; a non-temporal store doesn't first read the line that it overwrites,
 * and leaves the caches to others. */
inline __attribute__((always_inline)) void StreamLine(char *target, const char *source)
{
    const auto *from = reinterpret_cast<const __m128i *>(source);
    auto *to = reinterpret_cast<__m128i *>(target);
    const __m128i a = _mm_loadu_si128(from);
    const __m128i b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2);
    const __m128i d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
}

/** Copies a tile whose pages take turns, line by line, since the processor itself fetches ahead
 * within a page only. */
void StreamPages(char *target, const char *source, const char *next)
{
    constexpr size_t pageBytes = 4096;
    constexpr size_t atOnce = 2 * lineBytes;
    for (size_t line = 0; line < pageBytes; line += atOnce)
    {
        for (size_t i = line; i < TileBytes; i += pageBytes)
        {
            _mm_prefetch(next + i, _MM_HINT_T0);
            _mm_prefetch(next + i + lineBytes, _MM_HINT_T0);
            StreamLine(target + i, source + i);
            StreamLine(target + i + lineBytes, source + i + lineBytes);
        }
    }
}

/** Copies a tile past the caches, for it isn't read again here soon; what follows a whole tile
 * in the source is fetched meanwhile.
 *  @param target aligned to 16 bytes
 *  @param bytes at most TileBytes */
void StreamTile(char *target, const char *source, const size_t bytes)
{
    if (bytes == TileBytes)
    {
        StreamPages(target, source, source + TileBytes);
        return;
    }
    size_t i = 0;
    for (; i + lineBytes <= bytes; i += lineBytes)
    {
        StreamLine(target + i, source + i);
    }
    std::memcpy(target + i, source + i, bytes - i);
}

/** Makes copied tiles visible to other processes. */
void FinishCopies() { _mm_sfence(); }

#else

void StreamTile(char *target, const char *source, const size_t bytes)
{
    std::memcpy(target, source, bytes);
}

void FinishCopies() {}

#endif

} // end empty namespace

void SharedLanding::Land(const char *source, const size_t bytes, const size_t offset, Scan &scan)
{
    char *target = m_Pool->At(offset);
    for (size_t i = 0; i < bytes; i += TileBytes)
    {
        const size_t n = std::min(TileBytes, bytes - i);
        scan.See(source + i, n);
        StreamTile(target + i, source + i, n);
    }
    // Stores past the caches reach memory in any order: the commit may go only once all are there.
    FinishCopies();
}

} // end namespace bbflow
