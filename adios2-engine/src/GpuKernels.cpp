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

/** A GPU has some thousands of threads for each of its processors; the rest of the points is
 * theirs, too. */
constexpr unsigned long long MostFolding = 4096;

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
    static const char *const kinds[] = {"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"};
    m_Status = m_Runtime->LoadKernels(&m_Module);
    for (size_t kind = 0; kind < Scan::Kinds && m_Status == Fine; ++kind)
    {
        const auto find = [&](void **kernel, const std::string &name)
        { return m_Runtime->FindKernel(kernel, m_Module, (name + kinds[kind]).c_str()); };
        m_Status = find(&m_Range[kind], "bbflow_range_");
        m_Status = m_Status == Fine ? find(&m_Fold[kind], "bbflow_fold_") : m_Status;
    }
}

GpuKernels::~GpuKernels()
{
    if (m_Module != nullptr)
    {
        m_Runtime->UnloadModule(m_Module);
    }
}

int GpuKernels::Fold(const size_t kind, FoldTask task, void *stream) const
{
    const auto blocks = (task.Points + FoldTask::BlockThreads - 1) / FoldTask::BlockThreads;
    task.Blocks = static_cast<unsigned>(std::min(blocks, MostFolding));
    void *arguments[] = {&task};
    return m_Runtime->Launch(m_Fold[kind], task.Blocks, 1, 1, FoldTask::BlockThreads, 1, 1, 0,
                             stream, arguments, nullptr);
}

size_t GpuKernels::ThreadsFor(const size_t bytes, const size_t parts)
{
    const size_t most = std::max(MostBlocks / std::max(parts, size_t{1}), size_t{1});
    const size_t blocks = bytes / (ThreadBytes * RangeTask::BlockThreads);
    return std::clamp(blocks, size_t{1}, most) * RangeTask::BlockThreads;
}

int GpuKernels::FindRanges(const size_t kind, RangeTask task, const size_t threads,
                           void *stream) const
{
    task.Blocks = static_cast<unsigned>(threads / RangeTask::BlockThreads);
    void *arguments[] = {&task};
    return m_Runtime->Launch(m_Range[kind], task.Blocks * task.Parts, 1, 1, RangeTask::BlockThreads,
                             1, 1, 0, stream, arguments, nullptr);
}

} // end namespace bbflow
