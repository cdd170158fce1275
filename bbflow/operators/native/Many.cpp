#include "Fold.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <thread>
#include <vector>

namespace
{

/** Points of a piece: so many that its state is still streamed past the caches. */
constexpr uint64_t PiecePoints = uint64_t(1) << 19;

/** Bytes of a value of each type, as bbflow_fold numbers them. */
constexpr uint64_t TypeBytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};

const void *Shifted(const void *array, const uint64_t bytes)
{
    return array ? static_cast<const char *>(array) + bytes : nullptr;
}

/** Folds some points of a task. */
int FoldPiece(const int type, const BbflowTask &task, const uint64_t first)
{
    const uint64_t points = std::min(PiecePoints, task.Points - first);
    if (points == task.Points)
    {
        return bbflow_fold(type, &task);
    }
    const uint64_t own = TypeBytes[type];
    const uint64_t bytes[BbflowAccumulators] = {4, own, 8, 8, own, own};
    BbflowTask piece = task;
    std::vector<const void *> blocks(task.Blocks, task.Blocks + task.Steps);
    for (const void *&block : blocks)
    {
        block = Shifted(block, first * own);
    }
    for (int field = 0; field < BbflowAccumulators; ++field)
    {
        piece.Source[field] = Shifted(task.Source[field], first * bytes[field]);
        piece.Target[field] = const_cast<void *>(Shifted(task.Target[field], first * bytes[field]));
    }
    piece.Blocks = blocks.data();
    piece.Points = points;
    return bbflow_fold(type, &piece);
}

} // namespace

int bbflow_fold_many(const int32_t *types, const BbflowTask *tasks, const uint64_t count,
                     const uint32_t threads)
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
                const int failure = FoldPiece(types[task], tasks[task], first);
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
