#pragma once

#include "GpuRuntime.h"
#include "Scan.h"
#include "kernels/FoldTask.h"
#include "kernels/RangeTask.h"

#include <array>
#include <memory>

namespace bbflow
{

/** Our kernels, loaded into a context of CUDA's or onto a device of HIP's. Made, used and given
 * back at home there. */
class GpuKernels
{
public:
    /** Returns none where they aren't built in or can't be loaded; the latter is reported once. */
    static std::unique_ptr<const GpuKernels> Load(std::shared_ptr<const GpuRuntime> runtime);

    ~GpuKernels();
    GpuKernels(const GpuKernels &) = delete;
    GpuKernels &operator=(const GpuKernels &) = delete;

    /** Finds the ranges of parts, when a stream comes to that. Gives 0 if it is queued.
     * @param kind of the values, as a Scan says it
     * @param task without its number of blocks
     * @param threads for each part, as ThreadsFor gives them */
    int FindRanges(size_t kind, RangeTask task, size_t threads, void *stream) const;

    /** Threads that each of some parts is worth.
     * @param bytes of the largest */
    static size_t ThreadsFor(size_t bytes, size_t parts);

    /** Adds a field's steps to its state, when a stream comes to that. Gives 0 if it is queued.
     * @param kind as above
     * @param task without its number of blocks */
    int Fold(size_t kind, FoldTask task, void *stream) const;

private:
    explicit GpuKernels(std::shared_ptr<const GpuRuntime> runtime);

    const std::shared_ptr<const GpuRuntime> m_Runtime;
    void *m_Module = nullptr;
    std::array<void *, Scan::Kinds> m_Range{}, m_Fold{};
    int m_Status = 0;
};

} // end namespace bbflow
