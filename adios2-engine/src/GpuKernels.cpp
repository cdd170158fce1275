#include "GpuKernels.h"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <string>
#include <utility>

namespace bbflow
{

namespace
{

constexpr int Fine = 0;

/** What is worth a thread of its own. As many as there are at most read faster than the host can be
 * written. */
constexpr size_t ThreadBytes = 128, MostBlocks = 64;

} // end empty namespace

std::unique_ptr<const GpuKernels> GpuKernels::Load(std::shared_ptr<const GpuRuntime> runtime)
{
    static std::atomic<bool> isSaid = false;
    if (!runtime->CanLaunch())
    {
        return nullptr;
    }
    std::unique_ptr<const GpuKernels> kernels(new GpuKernels(runtime));
    if (kernels->m_Status == Fine)
    {
        return kernels;
    }
    if (!isSaid.exchange(true))
    {
        std::cerr << std::string("bbflow: ") + runtime->Name() + " can't load kernels (error " +
                         std::to_string(kernels->m_Status) +
                         "): blocks of the GPU are looked at by the CPU\n"
                  << std::flush;
    }
    return nullptr;
}

GpuKernels::GpuKernels(std::shared_ptr<const GpuRuntime> runtime) : m_Runtime(std::move(runtime))
{
    static const char *const names[] = {
        "bbflow_pack_i1", "bbflow_pack_i2", "bbflow_pack_i4", "bbflow_pack_i8", "bbflow_pack_u1",
        "bbflow_pack_u2", "bbflow_pack_u4", "bbflow_pack_u8", "bbflow_pack_f4", "bbflow_pack_f8"};
    m_Status = m_Runtime->LoadKernels(&m_Module);
    for (size_t kind = 0; kind < Scan::Kinds && m_Status == Fine; ++kind)
    {
        m_Status = m_Runtime->FindKernel(&m_Pack[kind], m_Module, names[kind]);
    }
}

GpuKernels::~GpuKernels()
{
    if (m_Module != nullptr)
    {
        m_Runtime->UnloadModule(m_Module);
    }
}

unsigned GpuKernels::BlocksFor(const size_t bytes)
{
    const size_t blocks = bytes / (ThreadBytes * PackTask::BlockThreads);
    return static_cast<unsigned>(std::clamp(blocks, size_t{1}, MostBlocks));
}

int GpuKernels::Pack(const size_t kind, PackTask task, void *stream) const
{
    void *arguments[] = {&task};
    return m_Runtime->Launch(m_Pack[kind], task.Blocks, 1, 1, PackTask::BlockThreads, 1, 1, 0,
                             stream, arguments, nullptr);
}

} // end namespace bbflow
