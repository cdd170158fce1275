#include "Copy.h"

#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace bbflow
{

#if defined(__SSE2__)

void StreamCopy(char *target, const char *source, const size_t bytes)
{
    // A non-temporal store doesn't first read the line that it overwrites, and leaves the caches to
    // others.
    size_t i = 0;
    for (; i + 64 <= bytes; i += 64)
    {
        const auto *from = reinterpret_cast<const __m128i *>(source + i);
        auto *to = reinterpret_cast<__m128i *>(target + i);
        const __m128i a = _mm_loadu_si128(from);
        const __m128i b = _mm_loadu_si128(from + 1);
        const __m128i c = _mm_loadu_si128(from + 2);
        const __m128i d = _mm_loadu_si128(from + 3);
        _mm_stream_si128(to, a);
        _mm_stream_si128(to + 1, b);
        _mm_stream_si128(to + 2, c);
        _mm_stream_si128(to + 3, d);
    }
    std::memcpy(target + i, source + i, bytes - i);
}

void FinishCopies() { _mm_sfence(); }

#else

void StreamCopy(char *target, const char *source, const size_t bytes)
{
    std::memcpy(target, source, bytes);
}

void FinishCopies() {}

#endif

} // end namespace bbflow
