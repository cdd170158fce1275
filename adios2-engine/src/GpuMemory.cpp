#include "GpuMemory.h"

#include <utility>

namespace bbflow
{

GpuMemory::GpuMemory(std::shared_ptr<const GpuRuntime> runtime, void *home, void *stream)
: m_Own(new Own{std::move(runtime), home, stream})
{
}

GpuMemory::~GpuMemory()
{
    m_Own->Trim();
    m_Own->Stream = nullptr;
}

std::shared_ptr<char> GpuMemory::Take(const size_t bytes, const size_t most)
{
    Own &own = *m_Own;
    void *memory = nullptr;
    if (const auto spare = own.Spare.find(bytes); spare != own.Spare.end())
    {
        memory = spare->second;
        own.Spare.erase(spare);
    }
    else
    {
        const GpuRuntime::Visit visit(*own.Runtime, own.Home);
        const auto allocate = [&]
        { return own.Bytes + bytes <= most && own.Runtime->Allocate(&memory, bytes) == 0; };
        if (!allocate())
        {
            own.Trim();
            if (!allocate())
            {
                return nullptr;
            }
        }
        own.Bytes += bytes;
    }
    const auto giveBack = [shared = m_Own, bytes](char *piece)
    { shared->Spare.emplace(bytes, piece); };
    return {static_cast<char *>(memory), giveBack};
}

/** Gives back to the GPU what isn't in use. */
void GpuMemory::Own::Trim()
{
    if (Spare.empty())
    {
        return;
    }
    const GpuRuntime::Visit visit(*Runtime, Home);
    Stream != nullptr ? Runtime->WaitForStream(Stream) : 0; // its work may use them
    for (const auto &[bytes, memory] : Spare)
    {
        Runtime->Free(memory);
        Bytes -= bytes;
    }
    Spare.clear();
}

} // end namespace bbflow
