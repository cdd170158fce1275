#include "Merge.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <new>
#include <thread>
#include <vector>

namespace
{

/** Points of a piece: enough for its state to be streamed past the caches. */
constexpr uint64_t PiecePoints = uint64_t(1) << 19;

/** Bytes of a value of each type, as bbflow_fold numbers them. */
constexpr uint64_t TypeBytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};

/** Points of a state that are merged at a time: all its fields stay in the cache. */
constexpr uint64_t MergedPoints = uint64_t(1) << 13;

const void *Shifted(const void *array, const uint64_t bytes)
{
    return array ? static_cast<const char *>(array) + bytes : nullptr;
}

void *Shifted(void *array, const uint64_t bytes)
{
    return const_cast<void *>(Shifted(static_cast<const void *>(array), bytes));
}

/** Bytes of a value of an accumulator, for values of a type. */
uint64_t BytesOf(const int accumulator, const int type)
{
    const uint64_t own = TypeBytes[type];
    const uint64_t bytes[BbflowAccumulators] = {4, own, 8, 8, own, own};
    return bytes[accumulator];
}

/** Folds some points of a task. */
int FoldPiece(const int type, const BbflowTask &task, const uint64_t first)
{
    const uint64_t points = std::min(PiecePoints, task.Points - first);
    if (points == task.Points)
    {
        return bbflow_fold(type, &task);
    }
    BbflowTask piece = task;
    std::vector<const void *> blocks(task.Blocks, task.Blocks + task.Steps);
    for (const void *&block : blocks)
    {
        block = Shifted(block, first * TypeBytes[type]);
    }
    for (int field = 0; field < BbflowAccumulators; ++field)
    {
        piece.Source[field] = Shifted(task.Source[field], first * BytesOf(field, type));
        piece.Target[field] = Shifted(task.Target[field], first * BytesOf(field, type));
    }
    piece.Blocks = blocks.data();
    piece.Points = points;
    return bbflow_fold(type, &piece);
}

/** Merges some points of a task, few enough to stay in the cache. */
void MergeTile(const int type, const BbflowMergeTask &task, const uint64_t first,
               const uint64_t points)
{
    constexpr int CountType = 2;
    BbflowMergeTask tile = task;
    for (int field = 0; field < BbflowAccumulators; ++field)
    {
        const uint64_t bytes = BytesOf(field, type);
        tile.Left[field] = Shifted(task.Left[field], first * bytes);
        tile.Right[field] = Shifted(task.Right[field], first * bytes);
        tile.Target[field] = Shifted(task.Target[field], first * bytes);
        if (tile.Target[field] && !tile.Left[field])
        {
            std::memcpy(tile.Target[field], tile.Right[field], points * bytes);
            tile.Target[field] = nullptr;
        }
    }
    if (tile.Target[BbflowShift])
    {
        bbflow_merge_moments(type, tile.Left, tile.Right, tile.Target, points);
    }
    const auto merge = [&](const int field, const int own, const BbflowRule rule)
    {
        if (tile.Target[field])
        {
            const BbflowNumbers left{const_cast<void *>(tile.Left[field]), 0};
            const BbflowNumbers right{const_cast<void *>(tile.Right[field]), 0};
            const BbflowNumbers target{tile.Target[field], 0};
            bbflow_merge(own, rule, &left, &right, &target, 1, points);
        }
    };
    merge(BbflowCount, CountType, BbflowAdd);
    merge(BbflowMin, type, BbflowLeast);
    merge(BbflowMax, type, BbflowMost);
}

/** Merges some points of a task. */
int MergePiece(const int type, const BbflowMergeTask &task, const uint64_t first)
{
    const uint64_t end = std::min(first + PiecePoints, task.Points);
    for (uint64_t at = first; at < end; at += MergedPoints)
    {
        MergeTile(type, task, at, std::min(MergedPoints, end - at));
    }
    return 0;
}

/** Does all tasks of a table, large ones in pieces, side by side on some threads. */
template <class Task>
int DoMany(const int32_t *types, const Task *tasks, const uint64_t count, const uint32_t threads,
           int (*piece)(int type, const Task &task, uint64_t first))
{
    std::atomic<uint64_t> next{0};
    std::atomic<int> failed{0};
    const auto work = [&](const auto &begin)
    {
        try
        {
            for (uint64_t at = next++; at < begin.back() && !failed; at = next++)
            {
                const auto after = std::upper_bound(begin.begin(), begin.end(), at);
                const uint64_t task = uint64_t(after - begin.begin()) - 1;
                const uint64_t first = (at - begin[task]) * PiecePoints;
                const int failure = piece(types[task], tasks[task], first);
                failure ? failed.store(failure) : void();
            }
        }
        catch (const std::bad_alloc &)
        {
            failed = 1;
        }
    };
    try
    {
        std::vector<uint64_t> begin(count + 1);
        for (uint64_t task = 0; task < count; ++task)
        {
            if (types[task] < 0 || types[task] > 9)
            {
                return 2;
            }
            begin[task + 1] = begin[task] + (tasks[task].Points + PiecePoints - 1) / PiecePoints;
        }
        std::vector<std::thread> others;
        const uint64_t wanted = std::min<uint64_t>(threads, begin.back());
        try
        {
            while (others.size() + 1 < wanted)
            {
                others.emplace_back([&] { work(begin); });
            }
        }
        catch (const std::exception &)
        {
            // No thread or no memory for one: there are as many as there are.
        }
        work(begin);
        for (std::thread &other : others)
        {
            other.join();
        }
    }
    catch (const std::bad_alloc &)
    {
        return 1;
    }
    return failed;
}

} // namespace

int bbflow_fold_many(const int32_t *types, const BbflowTask *tasks, const uint64_t count,
                     const uint32_t threads)
{
    return DoMany(types, tasks, count, threads, FoldPiece);
}

int bbflow_merge_many(const int32_t *types, const BbflowMergeTask *tasks, const uint64_t count,
                      const uint32_t threads)
{
    return DoMany(types, tasks, count, threads, MergePiece);
}
