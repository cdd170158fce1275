#include "DeviceQueue.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace bbflow
{

namespace
{

constexpr int Fine = 0;

/** Up to this size a kernel writes a block into the pool itself; larger ones are copied past it. */
constexpr size_t PackedBytes = size_t{1} << 20;

constexpr size_t MostPairBytes = 2 * sizeof(double), NotesBytes = size_t{1} << 20;

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
    for (Line &line : m_Lines)
    {
        const GpuRuntime::Visit visit(*line.Runtime, line.Home);
        line.Runtime->WaitForStream(line.Stream); // it may fold
        line.Memory.reset();
        line.Kernels.reset();
        line.Runtime->CloseStream(line.Stream);
        line.Runtime->CloseEvent(line.Before);
    }
}

/** The stream of a GPU. */
DeviceQueue::Line &DeviceQueue::LineOf(const void *memory)
{
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

/** Begins to copy, after what the program has queued and before what it queues from now on. */
int DeviceQueue::Begin(Copying &copying, const std::vector<DeviceRows> &block)
{
    const Line &line = *copying.On;
    const GpuRuntime &runtime = *line.Runtime;
    int status = runtime.Record(line.Before, m_Programs);
    status = status == Fine ? runtime.LetWait(line.Stream, line.Before, 0) : status;
    const bool isSmall = copying.Bytes <= PackedBytes;
    if (status == Fine && !(isSmall && Launch(copying, block, true)))
    {
        status = CopyRows(copying, block);
        if (status == Fine && !isSmall)
        {
            Launch(copying, block, false);
        }
    }
    status = status == Fine ? runtime.Record(copying.Event, line.Stream) : status;
    // BP5 has copied when a deferred Put returns: what the program queues next may write there.
    return status == Fine ? runtime.LetWait(m_Programs, copying.Event, 0) : status;
}

int DeviceQueue::CopyRows(const Copying &copying, const std::vector<DeviceRows> &block) const
{
    const GpuRuntime &runtime = *copying.On->Runtime;
    void *const stream = copying.On->Stream;
    char *target = copying.Begin;
    int status = Fine;
    for (const DeviceRows &rows : block)
    {
        if (status == Fine)
        {
            const bool isThere = copying.Registered == nullptr;
            const auto copy = isThere ? runtime.CopyThere : runtime.Copy;
            status = rows.Count == 1 ? copy(target, rows.First, rows.RowBytes, stream)
                                     : runtime.CopyRows(target, rows.First, rows.Pitch,
                                                        rows.RowBytes, rows.Count, isThere, stream);
        }
        target += rows.RowBytes * rows.Count;
    }
    return status;
}

/** Gives a GPU's kernels; nullptr where there are none. */
const GpuKernels *DeviceQueue::KernelsOf(Line &line)
{
    if (!std::exchange(line.HasLooked, true))
    {
        line.Kernels = GpuKernels::Load(line.Runtime);
    }
    return line.Kernels.get();
}

/** Lets kernels find a block's range, and copy it in the same pass; false if they don't.
 * @param copies whether they copy */
bool DeviceQueue::Launch(Copying &copying, const std::vector<DeviceRows> &block, const bool copies)
{
    Line &line = *copying.On;
    const std::optional<size_t> kind = copying.Look->Kind();
    char *target = copying.Begin;
    if (!kind || (copies && copying.Registered->OnDevice(target) == nullptr))
    {
        return false;
    }
    if (KernelsOf(line) == nullptr)
    {
        return false;
    }
    std::vector<Pairs> found;
    for (auto rows = block.begin(); rows != block.end();)
    {
        PackTask task{};
        size_t bytes = 0;
        for (; rows != block.end() && task.Parts < PackTask::Most; ++rows)
        {
            task.Which[task.Parts++] = {rows->First, rows->RowBytes, rows->Count, rows->Pitch};
            bytes += rows->RowBytes * rows->Count;
        }
        task.Blocks = GpuKernels::BlocksFor(bytes);
        task.Target = copies ? copying.Registered->OnDevice(target) : nullptr;
        const size_t pairs = size_t{task.Blocks} * PackTask::BlockThreads;
        found.push_back({Note(line, pairs * MostPairBytes, &task.Ranges), pairs});
        if (task.Ranges == nullptr || line.Kernels->Pack(*kind, task, line.Stream) != Fine)
        {
            return false;
        }
        target += bytes;
    }
    copying.Found = std::move(found);
    return true;
}

/** Gives room for what a kernel finds.
 * @param there gets where the kernel sees it; null if it doesn't */
char *DeviceQueue::Note(const Line &line, const size_t bytes, void **there)
{
    const auto hasRoom = [&](const Notes &notes)
    { return notes.Used + bytes <= notes.Registered->Bytes(); };
    auto notes = std::find_if(m_Notes.begin(), m_Notes.end(), hasRoom);
    if (notes == m_Notes.end())
    {
        const size_t most = std::max(bytes, NotesBytes);
        std::unique_ptr<char[]> memory(new char[most]);
        auto registered =
            std::make_shared<const RegisteredMemory>(line.Runtime, line.Home, memory.get(), most);
        notes = m_Notes.insert(notes, {std::move(memory), std::move(registered), 0});
    }
    char *const place = notes->Memory.get() + notes->Used;
    notes->Used += bytes;
    *there = notes->Registered->OnDevice(place);
    return place;
}

void DeviceQueue::Copy(const std::vector<DeviceRows> &block, Pool &pool, const Arena::Place &extent,
                       const size_t offset, Scan &look)
{
    Line &line = LineOf(block.front().First);
    Copy(line, block, pool.At(offset),
         pool.Register(line.Runtime, line.Home, extent.first, extent.second), look);
}

void DeviceQueue::Copy(Line &line, const std::vector<DeviceRows> &block, char *target,
                       std::shared_ptr<const RegisteredMemory> registered, Scan &look)
{
    const GpuRuntime &runtime = *line.Runtime;
    const GpuRuntime::Visit visit(runtime, line.Home);
    Copying copying{&line, nullptr, target, BytesOf(block), std::move(registered), &look, {}};
    int status = runtime.OpenEvent(&copying.Event, GpuRuntime::WithoutTimes);
    if (status == Fine)
    {
        status = Begin(copying, block);
        if (status != Fine)
        {
            runtime.WaitForStream(line.Stream); // a part of it may be under way
            runtime.CloseEvent(copying.Event);
        }
    }
    if (status != Fine)
    {
        throw std::runtime_error(Failure(runtime, copying.Bytes, status));
    }
    m_Copying.push_back(std::move(copying));
}

const char *DeviceQueue::Read(const std::vector<DeviceRows> &block)
{
    NoScan unseen;
    Line &line = LineOf(block.front().First);
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
        if (status == Fine && copying.Found.empty())
        {
            copying.Look->See(copying.Begin, copying.Bytes);
        }
        else if (status == Fine)
        {
            for (const Pairs &pairs : copying.Found)
            {
                copying.Look->Add(pairs.First, pairs.Count);
            }
        }
        else if (m_Failure.empty())
        {
            m_Failure = Failure(runtime, copying.Bytes, status);
        }
    }
    for (Notes &notes : m_Notes)
    {
        notes.Used = 0;
    }
    if (!m_Failure.empty())
    {
        throw std::runtime_error(m_Failure);
    }
}

} // end namespace bbflow
