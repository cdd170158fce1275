#pragma once

#include "GpuRuntime.h"

#include <cstddef>
#include <map>
#include <memory>

namespace bbflow
{

/** Memory of a GPU's that is ours, for work on one stream. It is used again, and given back when
 * this and all its pieces are gone. */
class GpuMemory
{
public:
    /** @param home of the runtime's, to which the memory and the stream belong */
    GpuMemory(std::shared_ptr<const GpuRuntime> runtime, void *home, void *stream);
    /** The stream has done its work. */
    ~GpuMemory();
    GpuMemory(const GpuMemory &) = delete;
    GpuMemory &operator=(const GpuMemory &) = delete;

    /** Returns a piece, which comes back by itself.
     *  @param most bytes that all of them may have
     *  @return null if there is no room for it */
    std::shared_ptr<char> Take(size_t bytes, size_t most);

    /** Bytes of all pieces. */
    size_t Bytes() const { return m_Own->Bytes; }

private:
    struct Own
    {
        std::shared_ptr<const GpuRuntime> Runtime;
        void *Home;
        /** Null once it is closed. */
        void *Stream;
        std::multimap<size_t, char *> Spare{};
        size_t Bytes = 0;

        void Trim();
        ~Own() { Trim(); }
    };
    const std::shared_ptr<Own> m_Own;
};

} // end namespace bbflow
