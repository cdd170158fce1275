#include "Many.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <new>
#include <thread>
#include <vector>

namespace bbflow
{

namespace
{

/** Points of a piece: enough for its state to be streamed past the caches. */
constexpr uint64_t PiecePoints = uint64_t(1) << 19;

/** Points of a state that are merged at a time: all its fields stay in the cache. */
constexpr uint64_t MergedPoints = uint64_t(1) << 13;

/** Bytes of blocks that go through all families before the next ones: they stay in the cache. */
constexpr uint64_t TiledBytes = uint64_t(1) << 20;

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

/** Whose blocks and states are cut: a task, with what its state has besides. */
template <class Task>
struct Work
{
    int Type;
    const Task &Own;
    const BbflowFamilyTask *Families;
    uint64_t FamilyCount;
};

/** Folds some points of a task, and into what its state has besides. */
void FoldPoints(const Work<BbflowTask> &work, const uint64_t first, const uint64_t points)
{
    BbflowTask part = work.Own;
    std::vector<const void *> blocks(part.Blocks, part.Blocks + part.Steps);
    for (const void *&block : blocks)
    {
        block = Shifted(block, first * TypeBytes[work.Type]);
    }
    for (int field = 0; field < BbflowAccumulators; ++field)
    {
        part.Source[field] = Shifted(part.Source[field], first * BytesOf(field, work.Type));
        part.Target[field] = Shifted(part.Target[field], first * BytesOf(field, work.Type));
    }
    part.Blocks = blocks.data();
    part.Points = points;
    Fold(work.Type, part);
    for (uint64_t at = 0; at < work.FamilyCount; ++at)
    {
        FoldFamily({work.Type, first, points}, work.Families[at], part.Blocks, part.Steps,
                   part.Fill);
    }
}

/** Folds a piece of a task: all at once if nobody but the moments' kernel looks at its blocks. */
void FoldPiece(const Work<BbflowTask> &work, const uint64_t first, const uint64_t points)
{
    const uint64_t bytes = std::max<uint64_t>(work.Own.Steps, 1) * TypeBytes[work.Type];
    const bool isWhole = !work.FamilyCount || work.Own.FilterCount;
    const uint64_t most = isWhole ? points : std::max<uint64_t>(TiledBytes / bytes, 256);
    for (uint64_t at = first; at < first + points; at += most)
    {
        FoldPoints(work, at, std::min(most, first + points - at));
    }
}

/** Merges some points of a task, few enough to stay in the cache. */
void MergeTile(const int type, const BbflowMergeTask &task, const uint64_t first,
               const uint64_t points)
{
    BbflowMergeTask tile = task;
    tile.Points = points;
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
    Merge(type, tile);
}

/** Merges a piece of a task. */
void MergePiece(const Work<BbflowMergeTask> &work, const uint64_t first, const uint64_t points)
{
    for (uint64_t at = first; at < first + points; at += MergedPoints)
    {
        MergeTile(work.Type, work.Own, at, std::min(MergedPoints, first + points - at));
    }
    for (uint64_t at = 0; at < work.FamilyCount; ++at)
    {
        MergeFamily({work.Type, first, points}, work.Families[at]);
    }
}

/** How many points of a task are done at a time: all where rows are noted, in their order. */
uint64_t PieceOf(const BbflowTask &task) { return task.FilterCount ? task.Points : PiecePoints; }
uint64_t PieceOf(const BbflowMergeTask &) { return PiecePoints; }

/** A table of tasks, and where the pieces and families of each begin. */
template <class Task>
class Table
{
public:
    Table(const int32_t *types, const Task *tasks, const uint64_t count,
          const BbflowFamilyTask *families, const uint64_t familyCount)
    : m_Types(types), m_Tasks(tasks), m_FamilyTasks(families), m_Pieces(count + 1),
      m_Families(count + 1)
    {
        uint64_t family = 0;
        for (uint64_t task = 0; task < count; ++task)
        {
            m_IsKnown = m_IsKnown && WithType(types[task], [](auto) {});
            const uint64_t piece = std::max<uint64_t>(PieceOf(tasks[task]), 1);
            m_Pieces[task + 1] = m_Pieces[task] + (tasks[task].Points + piece - 1) / piece;
            for (; family < familyCount && families[family].Task == task; ++family)
            {
                m_IsKnown = m_IsKnown && families[family].Kind < BbflowFamilyKinds;
            }
            m_Families[task + 1] = family;
        }
        m_IsKnown = m_IsKnown && family == familyCount;
    }

    /** Whether all types and families are, and each of these is of a task. */
    bool IsKnown() const { return m_IsKnown; }
    uint64_t Pieces() const { return m_Pieces.back(); }

    /** Does one of the pieces. */
    template <class F>
    void Do(const uint64_t at, const F &piece) const
    {
        const auto after = std::upper_bound(m_Pieces.begin(), m_Pieces.end(), at);
        const uint64_t task = uint64_t(after - m_Pieces.begin()) - 1;
        const uint64_t first = (at - m_Pieces[task]) * PieceOf(m_Tasks[task]);
        const Work<Task> work{m_Types[task], m_Tasks[task], m_FamilyTasks + m_Families[task],
                              m_Families[task + 1] - m_Families[task]};
        piece(work, first, std::min(PieceOf(work.Own), work.Own.Points - first));
    }

private:
    const int32_t *m_Types;
    const Task *m_Tasks;
    const BbflowFamilyTask *m_FamilyTasks;
    std::vector<uint64_t> m_Pieces;
    std::vector<uint64_t> m_Families;
    bool m_IsKnown = true;
};

/** Does all tasks of a table, large ones in pieces, side by side on some threads. */
template <class Task, class F>
int DoMany(const Table<Task> &table, const uint32_t threads, const F &piece)
{
    std::atomic<uint64_t> next{0};
    std::atomic<bool> failed{false};
    const auto work = [&]
    {
        try
        {
            for (uint64_t at = next++; at < table.Pieces() && !failed; at = next++)
            {
                table.Do(at, piece);
            }
        }
        catch (const std::bad_alloc &)
        {
            failed = true;
        }
    };
    if (!table.IsKnown())
    {
        return 2;
    }
    std::vector<std::thread> others;
    const uint64_t wanted = std::min<uint64_t>(threads, table.Pieces());
    try
    {
        while (others.size() + 1 < wanted)
        {
            others.emplace_back(work);
        }
    }
    catch (const std::exception &)
    {
        // No thread or no memory for one: there are as many as there are.
    }
    work();
    for (std::thread &other : others)
    {
        other.join();
    }
    return failed;
}

} // namespace

} // end namespace bbflow

int bbflow_fold(const int32_t *types, const BbflowTask *tasks, const uint64_t count,
                const BbflowFamilyTask *families, const uint64_t familyCount,
                const uint32_t threads)
try
{
    using namespace bbflow;
    return DoMany(Table<BbflowTask>(types, tasks, count, families, familyCount), threads,
                  FoldPiece);
}
catch (const std::bad_alloc &)
{
    return 1;
}

int bbflow_merge(const int32_t *types, const BbflowMergeTask *tasks, const uint64_t count,
                 const BbflowFamilyTask *families, const uint64_t familyCount,
                 const uint32_t threads)
try
{
    using namespace bbflow;
    return DoMany(Table<BbflowMergeTask>(types, tasks, count, families, familyCount), threads,
                  MergePiece);
}
catch (const std::bad_alloc &)
{
    return 1;
}
