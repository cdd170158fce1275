/** How a DeviceQueue brings small blocks together. */

#include "DeviceQueue.h"

#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

namespace bbflow
{

namespace
{

constexpr int Fine = 0;

/** Up to this size a block waits on the GPU for others, in so much memory there. */
constexpr size_t MostStaged = size_t{1} << 20, StageBytes = size_t{16} << 20;

} // end empty namespace

/** Copies a small block to where it waits on the GPU, on the stream of those who write it, the
 * program's own: so what that does next may write to the block. False if there is no room for it.
 *  @throws std::runtime_error if the runtime can't */
bool DeviceQueue::Stage(Line &line, void *stream, const std::vector<DeviceRows> &block,
                        const Coming &coming)
{
    if (coming.Bytes > MostStaged)
    {
        return false;
    }
    if (!std::exchange(line.HasAskedForStage, true))
    {
        line.Stage = GpuMemory(line.Runtime, line.Home, line.Stream).Take(StageBytes, StageBytes);
    }
    if (!line.Stage)
    {
        return false;
    }
    if (line.StagedBytes + coming.Bytes > StageBytes)
    {
        Finish();
    }
    char *const place = line.Stage.get() + line.StagedBytes;
    const int status = CopyRows(line, stream, place, block, true);
    if (status != Fine)
    {
        throw std::runtime_error(Failure(*line.Runtime, coming.Bytes, status));
    }
    line.Waiting.push_back({place, coming});
    line.StagedBytes += Arena::Padded(coming.Bytes); // as the pool's places lie
    return true;
}

/** Begins to copy all that waits on a GPU, in one where places follow each other. */
void DeviceQueue::SendStaged(Line &line)
{
    const std::vector<Staged> waiting = std::exchange(line.Waiting, {});
    line.StagedBytes = 0; // it is written again only when all has come
    if (waiting.empty())
    {
        return;
    }
    const GpuRuntime::Visit visit(*line.Runtime, line.Home);
    const auto goesOn = [&](const size_t i)
    {
        const Coming &block = waiting[i].Block, &before = waiting[i - 1].Block;
        return block.Registered == before.Registered &&
               block.Begin - before.Begin == waiting[i].First - waiting[i - 1].First;
    };
    size_t bytes = 0;
    std::vector<Coming> blocks;
    for (const Staged &staged : waiting)
    {
        blocks.push_back(staged.Block);
        bytes += staged.Block.Bytes;
    }
    const auto begin = [&](std::vector<Coming> &coming)
    {
        int status = Fine;
        for (size_t first = 0, end = 0; first < waiting.size() && status == Fine; first = end)
        {
            for (end = first + 1; end < waiting.size() && goesOn(end);)
            {
                ++end;
            }
            const auto &[last, block] = waiting[end - 1];
            const size_t run = static_cast<size_t>(last - waiting[first].First) + block.Bytes;
            status =
                line.Runtime->Copy(coming[first].Begin, waiting[first].First, run, line.Stream);
        }
        std::map<std::optional<size_t>, std::vector<Seen>> kinds;
        for (size_t i = 0; i < waiting.size(); ++i)
        {
            const size_t size = coming[i].Bytes;
            kinds[coming[i].Look->Kind()].push_back(
                {{waiting[i].First, size, 1, size}, &coming[i]});
        }
        for (const auto &[kind, parts] : kinds)
        {
            status == Fine ? Look(line, parts) : void();
        }
        return status;
    };
    const int status = Queue(line, false, std::move(blocks), begin);
    if (status != Fine && m_Failure.empty())
    {
        m_Failure = Failure(*line.Runtime, bytes, status);
    }
}

} // end namespace bbflow
