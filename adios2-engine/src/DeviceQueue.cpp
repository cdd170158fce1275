#include "DeviceQueue.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace bbflow
{

namespace
{

constexpr int Fine = 0;

size_t BytesOf(const std::vector<DeviceRows> &block)
{
    size_t bytes = 0;
    for (const DeviceRows &rows : block)
    {
        bytes += rows.RowBytes * rows.Count;
    }
    return bytes;
}

std::string Failure(const GpuRuntime &runtime, const size_t bytes, const int status)
{
    return std::string("bbflow: ") + runtime.Name() + " can't copy " + std::to_string(bytes) +
           " bytes from the GPU's memory (error " + std::to_string(status) +
           "): Put them from the host's";
}

} // end empty namespace

DeviceQueue::~DeviceQueue()
{
    try
    {
        Finish();
    }
    catch (const std::runtime_error &)
    {
        // Nobody needs what hasn't come, and nothing comes any more.
    }
    for (const Line &line : m_Lines)
    {
        const GpuRuntime::Visit visit(*line.Runtime, line.Home);
        line.Runtime->CloseStream(line.Stream);
        line.Runtime->CloseEvent(line.Before);
    }
}

/** The stream of a GPU. */
const DeviceQueue::Line &DeviceQueue::LineOf(const std::vector<DeviceRows> &block)
{
    const void *memory = block.front().First;
    const std::shared_ptr<const GpuRuntime> runtime = GpuRuntime::Of(memory);
    if (!runtime)
    {
        throw std::runtime_error(
            "bbflow: memory is a GPU's no more: it must be there until EndStep");
    }
    void *const home = runtime->HomeOf(memory);
    const auto isIt = [&](const Line &line)
    { return line.Home == home && line.Runtime->Name() == runtime->Name(); };
    const auto found = std::find_if(m_Lines.begin(), m_Lines.end(), isIt);
    if (found != m_Lines.end())
    {
        return *found;
    }
    const GpuRuntime::Visit visit(*runtime, home);
    Line line{runtime, home, nullptr, nullptr};
    int status = runtime->OpenStream(&line.Stream, GpuRuntime::OnItsOwn);
    if (status == Fine)
    {
        status = runtime->OpenEvent(&line.Before, GpuRuntime::WithoutTimes);
        status == Fine ? Fine : runtime->CloseStream(line.Stream);
    }
    if (status != Fine)
    {
        throw std::runtime_error(Failure(*runtime, 0, status));
    }
    m_Lines.push_back(std::move(line));
    return m_Lines.back();
}

int DeviceQueue::Begin(const Line &line, char *target, const std::vector<DeviceRows> &block,
                       void *event) const
{
    const GpuRuntime &runtime = *line.Runtime;
    int status = runtime.Record(line.Before, m_Programs);
    status = status == Fine ? runtime.LetWait(line.Stream, line.Before, 0) : status;
    for (const DeviceRows &rows : block)
    {
        if (status == Fine)
        {
            const bool isOne = rows.Count == 1;
            status = isOne ? runtime.Copy(target, rows.First, rows.RowBytes, line.Stream)
                           : runtime.CopyRows(target, rows.First, rows.Pitch, rows.RowBytes,
                                              rows.Count, line.Stream);
        }
        target += rows.RowBytes * rows.Count;
    }
    status = status == Fine ? runtime.Record(event, line.Stream) : status;
    // BP5 has copied when a deferred Put returns: what the program queues next may write there.
    return status == Fine ? runtime.LetWait(m_Programs, event, 0) : status;
}

void DeviceQueue::Copy(const std::vector<DeviceRows> &block, Pool &pool, const Arena::Place &extent,
                       const size_t offset, Scan &look)
{
    const Line &line = LineOf(block);
    Copy(line, block, pool.At(offset),
         pool.Register(line.Runtime, line.Home, extent.first, extent.second), look);
}

void DeviceQueue::Copy(const Line &line, const std::vector<DeviceRows> &block, char *target,
                       std::shared_ptr<const RegisteredMemory> registered, Scan &look)
{
    const GpuRuntime &runtime = *line.Runtime;
    const GpuRuntime::Visit visit(runtime, line.Home);
    void *event = nullptr;
    int status = runtime.OpenEvent(&event, GpuRuntime::WithoutTimes);
    if (status == Fine)
    {
        status = Begin(line, target, block, event);
        if (status != Fine)
        {
            runtime.WaitForStream(line.Stream); // a part of it may be under way
            runtime.CloseEvent(event);
        }
    }
    if (status != Fine)
    {
        throw std::runtime_error(Failure(runtime, BytesOf(block), status));
    }
    m_Copying.push_back({&line, event, target, BytesOf(block), std::move(registered), &look});
}

const char *DeviceQueue::Read(const std::vector<DeviceRows> &block)
{
    NoScan unseen;
    const Line &line = LineOf(block);
    const size_t bytes = BytesOf(block);
    if (!m_Registered || m_Registered->Bytes() < bytes)
    {
        m_Registered.reset();
        m_Memory.reset(new char[bytes]);
        m_Registered = std::make_shared<const RegisteredMemory>(line.Runtime, line.Home,
                                                                m_Memory.get(), bytes);
    }
    Copy(line, block, m_Memory.get(), m_Registered, unseen);
    Finish();
    return m_Memory.get();
}

void DeviceQueue::Finish()
{
    // What is there is looked at while the next ones come.
    for (const Copying &copying : std::exchange(m_Copying, {}))
    {
        const GpuRuntime &runtime = *copying.On->Runtime;
        const GpuRuntime::Visit visit(runtime, copying.On->Home);
        const int status = runtime.WaitForEvent(copying.Event);
        runtime.CloseEvent(copying.Event);
        if (status == Fine)
        {
            copying.Look->See(copying.Begin, copying.Bytes);
        }
        else if (m_Failure.empty())
        {
            m_Failure = Failure(runtime, copying.Bytes, status);
        }
    }
    if (!m_Failure.empty())
    {
        throw std::runtime_error(m_Failure);
    }
}

} // end namespace bbflow
