#include "SpanMemory.h"

#include "SpanPlace.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <new>

namespace bbflow
{

void SpanMemory::Release::operator()(char *memory) const { std::free(memory); }

void SpanMemory::Free()
{
    // What this step had no use for is not kept for ever.
    const auto idle = std::remove_if(m_Pieces.begin(), m_Pieces.end(),
                                     [](const Piece &piece) { return !piece.IsTaken; });
    m_Pieces.erase(idle, m_Pieces.end());
    for (Piece &piece : m_Pieces)
    {
        piece.IsTaken = false;
    }
}

void *SpanMemory::PlaceCore(void *span, const size_t elements, const size_t bytes)
{
    using Ask = decltype(&bbflow_place_span);
    const auto place = reinterpret_cast<Ask>(dlsym(RTLD_DEFAULT, "bbflow_place_span"));
    if (place == nullptr)
    {
        return nullptr;
    }
    Piece &piece = Take(bytes);
    char *const memory = piece.Memory.get() + SpanHeaderBytes;
    piece.IsTaken = place(span, memory, elements);
    return piece.IsTaken ? memory : nullptr;
}

SpanMemory::Piece &SpanMemory::Take(const size_t bytes)
{
    for (Piece &piece : m_Pieces)
    {
        if (!piece.IsTaken && piece.Bytes == bytes)
        {
            return piece;
        }
    }
    const size_t whole = (SpanHeaderBytes + bytes + SpanHeaderBytes - 1) / SpanHeaderBytes;
    auto *const memory =
        static_cast<char *>(std::aligned_alloc(SpanHeaderBytes, whole * SpanHeaderBytes));
    if (memory == nullptr)
    {
        throw std::bad_alloc();
    }
    m_Pieces.push_back({std::unique_ptr<char, Release>(memory), bytes, false});
    return m_Pieces.back();
}

} // end namespace bbflow
