#include "DeviceQueue.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

namespace bbflow
{

namespace
{

constexpr int Fine = 0, NotFine = 1;

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

} // end empty namespace

std::string DeviceQueue::Failure(const GpuRuntime &runtime, const size_t bytes, const int status)
{
    return std::string("bbflow: ") + runtime.Name() + " can't copy " + std::to_string(bytes) +
           " bytes from the GPU's memory (error " + std::to_string(status) +
           "): Put them from the host's";
}

DeviceQueue::~DeviceQueue()
{
    try
    {
        Finish();
    }
    catch (const std::runtime_error &)
    {
        // What hasn't come isn't needed, and nothing comes any more.
    }
    for (Line &line : m_Lines)
    {
        const GpuRuntime::Visit visit(*line.Runtime, line.Home);
        line.Runtime->WaitForStream(line.Stream); // it may fold
        line.Memory.reset();
        line.Stage.reset();
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

/** Begins to copy blocks, after what the program has queued.
 * @param isBefore whether that is before what it queues from now on, too
 * @param begin copies them, and lets their ranges be found, on the line's stream */
int DeviceQueue::Queue(Line &line, const bool isBefore, std::vector<Coming> blocks,
                       const std::function<int(std::vector<Coming> &)> &begin)
{
    const GpuRuntime &runtime = *line.Runtime;
    Copying copying{&line, nullptr, std::move(blocks)};
    int status = runtime.OpenEvent(&copying.Event, GpuRuntime::WithoutTimes);
    if (status != Fine)
    {
        return status;
    }
    status = runtime.Record(line.Before, m_Programs);
    status = status == Fine ? runtime.LetWait(line.Stream, line.Before, 0) : status;
    status = status == Fine ? begin(copying.Blocks) : status;
    status = status == Fine ? runtime.Record(copying.Event, line.Stream) : status;
    status = status == Fine && isBefore ? runtime.LetWait(m_Programs, copying.Event, 0) : status;
    if (status != Fine)
    {
        runtime.WaitForStream(line.Stream); // a part of it may be under way
        runtime.CloseEvent(copying.Event);
        return status;
    }
    m_Copying.push_back(std::move(copying));
    return Fine;
}

int DeviceQueue::CopyRows(const Line &line, void *stream, char *target,
                          const std::vector<DeviceRows> &block, const bool isThere) const
{
    const GpuRuntime &runtime = *line.Runtime;
    int status = Fine;
    for (const DeviceRows &rows : block)
    {
        if (status == Fine)
        {
            const auto copy = isThere ? runtime.CopyThere : runtime.Copy;
            status = rows.Count == 1 ? copy(target, rows.First, rows.RowBytes, stream)
                                     : runtime.CopyRows(target, rows.First, rows.Pitch,
                                                        rows.RowBytes, rows.Count, isThere, stream);
        }
        target += rows.RowBytes * rows.Count;
    }
    return status;
}

/** Returns a GPU's kernels; nullptr where there are none. */
const GpuKernels *DeviceQueue::KernelsOf(Line &line)
{
    if (!std::exchange(line.HasLooked, true))
    {
        line.Kernels = GpuKernels::Load(line.Runtime);
    }
    return line.Kernels.get();
}

/** Has kernels find the ranges of blocks whose values are of one kind; the host looks at those
 * for which they don't. */
void DeviceQueue::Look(Line &line, const std::vector<Seen> &parts)
{
    const std::optional<size_t> kind = parts.front().Block->Look->Kind();
    if (!kind || KernelsOf(line) == nullptr)
    {
        return;
    }
    size_t most = 0;
    for (const Seen &part : parts)
    {
        most = std::max(most, part.Rows.RowBytes * part.Rows.Count);
    }
    bool isQueued = true;
    for (size_t begin = 0; begin < parts.size() && isQueued; begin += RangeTask::Most)
    {
        const size_t count = std::min(parts.size() - begin, size_t{RangeTask::Most});
        const size_t threads = GpuKernels::ThreadsFor(most, count);
        RangeTask task{};
        for (; task.Parts < count; ++task.Parts)
        {
            const auto &[rows, block] = parts[begin + task.Parts];
            RangeTask::Part &part = task.Which[task.Parts];
            part = {rows.First, rows.RowBytes, rows.Count, rows.Pitch, nullptr};
            block->Found.push_back({Note(line, threads * MostPairBytes, &part.Ranges), threads});
            isQueued = isQueued && part.Ranges != nullptr;
        }
        isQueued = isQueued && line.Kernels->FindRanges(*kind, task, threads, line.Stream) == Fine;
    }
    if (!isQueued)
    {
        std::for_each(parts.begin(), parts.end(),
                      [](const Seen &part) { part.Block->Found.clear(); });
    }
}

/** Returns room for what a kernel finds.
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
                       const size_t offset, Scan &look, const bool isOurs)
{
    Line &line = LineOf(block.front().First);
    const GpuRuntime::Visit visit(*line.Runtime, line.Home);
    const Coming coming{pool.At(offset), BytesOf(block),
                        pool.Register(line.Runtime, line.Home, extent.first, extent.second), &look};
    // What is ours is written, or folded into, on the line's stream, for which no other waits.
    if (!Stage(line, isOurs ? line.Stream : m_Programs, block, coming))
    {
        Copy(line, block, coming);
    }
}

void DeviceQueue::Copy(Line &line, const std::vector<DeviceRows> &block, Coming coming)
{
    const GpuRuntime::Visit visit(*line.Runtime, line.Home);
    const size_t bytes = coming.Bytes;
    const auto begin = [&](std::vector<Coming> &blocks)
    {
        Coming &one = blocks.front();
        const bool isThere = one.Registered == nullptr;
        const int status = CopyRows(line, line.Stream, one.Begin, block, isThere);
        std::vector<Seen> parts;
        for (const DeviceRows &rows : block)
        {
            parts.push_back({rows, &one});
        }
        if (status == Fine)
        {
            Look(line, parts);
        }
        return status;
    };
    std::vector<Coming> blocks;
    blocks.push_back(std::move(coming));
    // BP5 has copied when a deferred Put returns: what the program queues next may write there.
    const int status = Queue(line, true, std::move(blocks), begin);
    if (status != Fine)
    {
        throw std::runtime_error(Failure(*line.Runtime, bytes, status));
    }
}

bool DeviceQueue::Await(const std::vector<DeviceRows> &block, Scan &look)
{
    Line &line = LineOf(block.front().First);
    const GpuRuntime::Visit visit(*line.Runtime, line.Home);
    const auto begin = [&](std::vector<Coming> &blocks)
    {
        std::vector<Seen> parts;
        for (const DeviceRows &rows : block)
        {
            parts.push_back({rows, &blocks.front()});
        }
        Look(line, parts);
        return look.Kind() && blocks.front().Found.empty() ? NotFine : Fine;
    };
    const bool isSeen = Queue(line, false, {{nullptr, 0, nullptr, &look}}, begin) == Fine;
    Finish();
    return isSeen;
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
    Copy(line, block, {m_Memory.get(), bytes, m_Registered, &unseen});
    Finish();
    return m_Memory.get();
}

/** Takes in what has come of a copy. */
void DeviceQueue::TakeIn(const Copying &copying)
{
    const GpuRuntime &runtime = *copying.On->Runtime;
    const GpuRuntime::Visit visit(runtime, copying.On->Home);
    const int status = runtime.WaitForEvent(copying.Event);
    runtime.CloseEvent(copying.Event);
    for (const Coming &block : copying.Blocks)
    {
        if (status == Fine && block.Found.empty())
        {
            block.Look->See(block.Begin, block.Bytes);
        }
        for (const Pairs &pairs : block.Found)
        {
            status == Fine ? block.Look->Add(pairs.First, pairs.Count) : void();
        }
        if (status != Fine && m_Failure.empty())
        {
            m_Failure = Failure(runtime, block.Bytes, status);
        }
    }
}

void DeviceQueue::Finish()
{
    for (Line &line : m_Lines)
    {
        SendStaged(line);
    }
    // What is there is looked at while the next ones come.
    for (const Copying &copying : std::exchange(m_Copying, {}))
    {
        TakeIn(copying);
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
