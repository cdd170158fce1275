#pragma once

#include <cstddef>

extern "C"
{

    /** The preloaded library's other function for the engine, which looks it up by its name: lets
     * the span that a program is about to get stand for memory, from where the engine takes the
     * values later.
     *  @param span adios2::core::Span<T>, as ADIOS2 hands it to the engine in this thread
     *  @param memory of `elements` values; the SpanHeaderBytes before it become the library's
     *  @return false if this version of ADIOS2 isn't as it is known: then nothing has changed */
    bool bbflow_place_span(void *span, void *memory, size_t elements);
}

namespace bbflow
{

/** A span's own object is kept before its memory, which is aligned by as much. */
constexpr size_t SpanHeaderBytes = 128;

} // end namespace bbflow
