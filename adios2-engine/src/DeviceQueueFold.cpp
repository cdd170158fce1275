/** How a DeviceQueue folds blocks where they lie. */

#include "DeviceQueue.h"

#include <atomic>
#include <iostream>
#include <stdexcept>
#include <string>

namespace bbflow
{

namespace
{

constexpr int Fine = 0;

void SayOnce(const std::string &why)
{
    static std::atomic<bool> isSaid = false;
    if (!isSaid.exchange(true))
    {
        std::cerr << "bbflow: " + why + ": its blocks are folded by the CPU\n" << std::flush;
    }
}

} // end empty namespace

std::shared_ptr<char> DeviceQueue::Keep(const std::vector<DeviceRows> &block, const size_t most)
{
    Line &line = LineOf(block.front().First);
    size_t bytes = 0;
    for (const DeviceRows &rows : block)
    {
        bytes += rows.RowBytes * rows.Count;
    }
    std::shared_ptr<char> copy = Room(line, bytes, most);
    if (copy)
    {
        Copy(line, block, {copy.get(), bytes, nullptr, &m_Unseen});
    }
    return copy;
}

std::shared_ptr<char> DeviceQueue::Room(const char *block, const size_t bytes, const size_t most)
{
    return Room(LineOf(block), bytes, most);
}

std::shared_ptr<char> DeviceQueue::Room(Line &line, const size_t bytes, const size_t most)
{
    const GpuRuntime &runtime = *line.Runtime;
    if (m_FoldsElsewhere)
    {
        return nullptr;
    }
    const GpuRuntime::Visit visit(runtime, line.Home);
    if (KernelsOf(line) == nullptr)
    {
        SayOnce(std::string("no kernels for a GPU of ") + runtime.Name());
        m_FoldsElsewhere = true;
        return nullptr;
    }
    if (!line.Memory)
    {
        line.Memory = std::make_unique<GpuMemory>(line.Runtime, line.Home, line.Stream);
    }
    std::shared_ptr<char> room = line.Memory->Take(bytes, most);
    if (!room)
    {
        SayOnce("the GPU has no more room for states and blocks than " +
                std::to_string(line.Memory->Bytes()) + " bytes, fold: device_memory is " +
                std::to_string(most));
        m_FoldsElsewhere = true;
    }
    return room;
}

void DeviceQueue::Fold(const size_t kind, const FoldTask &task)
{
    Line &line = LineOf(task.Count);
    const GpuRuntime::Visit visit(*line.Runtime, line.Home);
    const int status = line.Kernels->Fold(kind, task, line.Stream);
    if (status != Fine)
    {
        // The state lacks these steps: it must not land.
        m_Failure = std::string("bbflow: ") + line.Runtime->Name() +
                    " can't fold on the GPU (error " + std::to_string(status) +
                    "): use fold: {on: rank}";
        throw std::runtime_error(m_Failure);
    }
}

} // end namespace bbflow
