// The kernel where memory ends at each of its allocations in turn: calls fail, or are done right.

#include "Many.h"

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

namespace
{

std::atomic<long> Left{LONG_MAX};

/** Calls something with ever more memory until it lacks none.
 *  @return whether each call failed, or was right by `isRight` */
template <class Call, class Check>
bool IsGoodWhereverMemoryEnds(const Call &call, const Check &isRight)
{
    for (long allocations = 0;; ++allocations)
    {
        Left = allocations;
        const int code = call();
        const bool hasLacked = Left.exchange(LONG_MAX) < 0;
        if (code != 1 && !(code == 0 && isRight()))
        {
            return false;
        }
        if (!hasLacked)
        {
            return code == 0;
        }
    }
}

bool FoldsMany()
{
    constexpr uint64_t points = (uint64_t(1) << 20) + 1; // some pieces
    constexpr uint64_t tasks = 2;
    const std::vector<uint8_t> values(points, 7);
    const void *block = values.data();
    std::vector<int32_t> counts[tasks] = {std::vector<int32_t>(points),
                                          std::vector<int32_t>(points)};
    const int32_t types[tasks] = {4, 4};
    BbflowTask work[tasks] = {};
    for (uint64_t i = 0; i < tasks; ++i)
    {
        work[i].Target[BbflowCount] = counts[i].data();
        work[i].Blocks = &block;
        work[i].Steps = 1;
        work[i].Points = points;
    }
    return IsGoodWhereverMemoryEnds(
        [&] { return bbflow_fold(types, work, tasks, nullptr, 0, 4); },
        [&] { return counts[0].front() == 1 && counts[tasks - 1].back() == 1; });
}

bool MergesGrids()
{
    constexpr uint64_t bins = 4;
    int32_t counts[bins] = {1};
    int64_t origin = 1;
    int32_t exponent = 0, last = 0, below = 1, above = 0;
    int32_t sum[bins];
    int64_t firstOf;
    int32_t width, lastOf, belowOf, aboveOf;
    const int32_t type = 4;
    BbflowMergeTask task = {};
    task.Points = 1;
    BbflowFamilyTask grids = {};
    grids.Kind = BbflowGrids;
    grids.Size = bins;
    grids.Left = grids.Right = {{counts, &origin, &exponent, &last, &below, &above}, 1};
    grids.Target = {{sum, &firstOf, &width, &lastOf, &belowOf, &aboveOf}, 1};
    return IsGoodWhereverMemoryEnds([&] { return bbflow_merge(&type, &task, 1, &grids, 1, 1); },
                                    [&] { return sum[0] == 2 && belowOf == 2; });
}

} // end empty namespace

void *operator new(const size_t bytes)
{
    void *memory = Left-- > 0 ? std::malloc(bytes) : nullptr;
    if (memory == nullptr)
    {
        throw std::bad_alloc();
    }
    return memory;
}

void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

int main()
{
    const bool isGood[] = {FoldsMany(), MergesGrids()};
    std::printf("%d %d\n", isGood[0], isGood[1]);
}
