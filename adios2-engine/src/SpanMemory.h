#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace bbflow
{

/** Memory that spans of a step stand for; it is kept for those of the next step, since its pages
 * were touched. */
class SpanMemory
{
public:
    /** Backs a span that ADIOS2 is about to give to the program with memory.
     *  @param span the public one: nothing but a pointer to the core's
     *  @return the memory; null if that can't be had */
    template <class Span>
    void *Place(const Span &span, size_t elements, size_t bytes)
    {
        static_assert(sizeof(Span) == sizeof(void *));
        return PlaceCore(*reinterpret_cast<void *const *>(&span), elements, bytes);
    }

    /** Takes all back: their values aren't needed any more. */
    void Free();

private:
    struct Release
    {
        void operator()(char *memory) const;
    };
    struct Piece
    {
        std::unique_ptr<char, Release> Memory;
        size_t Bytes;
        bool IsTaken;
    };
    std::vector<Piece> m_Pieces;

    void *PlaceCore(void *span, size_t elements, size_t bytes);
    Piece &Take(size_t bytes);
};

} // end namespace bbflow
