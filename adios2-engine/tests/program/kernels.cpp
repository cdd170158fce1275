// The engine's kernels for the CPU, and what lets them run as the stand-in of a GPU would
// (device.c).
#include "../../src/kernels/Kernels.cpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

extern "C"
{
    unsigned long long bbflow_thread;

    /** Runs a kernel, one thread after the other.
     * @param shadow how far what the device has lies from where the program sees it
     * @param mapped how far registered memory lies from where the device sees it */
    void run_range(void (*kernel)(const bbflow::RangeTask), const void *asked, ptrdiff_t shadow,
                   uintptr_t mapped)
    {
        auto task = *static_cast<const bbflow::RangeTask *>(asked);
        for (unsigned i = 0; i < task.Parts; ++i)
        {
            bbflow::RangeTask::Part &part = task.Which[i];
            part.First += shadow;
            part.Ranges = static_cast<char *>(part.Ranges) - mapped;
        }
        const unsigned threads = task.Parts * task.Blocks * bbflow::RangeTask::BlockThreads;
        for (bbflow_thread = 0; bbflow_thread < threads; ++bbflow_thread)
        {
            kernel(task);
        }
    }

    /** What a part of a launch asks for: where its first row lies and how many bytes it has.
     * @param ranges gets where its ranges go
     * @return blocks of threads that the launch counts on; 0 if it has no such part */
    unsigned look_at_range(const void *asked, unsigned number, const char **first, size_t *bytes,
                           void **ranges)
    {
        const auto &task = *static_cast<const bbflow::RangeTask *>(asked);
        if (number >= task.Parts)
        {
            return 0;
        }
        const bbflow::RangeTask::Part &part = task.Which[number];
        *first = part.First;
        *bytes = part.RowBytes * part.Rows;
        *ranges = part.Ranges;
        return task.Parts * task.Blocks;
    }

    /** Runs a kernel, one thread after the other. */
    void run_fold(void (*kernel)(const bbflow::FoldTask), const bbflow::FoldTask *task)
    {
        for (bbflow_thread = 0; bbflow_thread < task->Blocks * bbflow::FoldTask::BlockThreads;
             ++bbflow_thread)
        {
            kernel(*task);
        }
    }

    /** Runs it as a GPU would, which has what it sees elsewhere: see run_range. */
    void run_fold_there(void (*kernel)(const bbflow::FoldTask), const void *asked, ptrdiff_t shadow)
    {
        auto task = *static_cast<const bbflow::FoldTask *>(asked);
        const auto move = [&](auto *&place)
        {
            const auto seen = reinterpret_cast<uintptr_t>(place);
            const uintptr_t there = seen != 0 ? seen + shadow : 0;
            place = reinterpret_cast<std::remove_reference_t<decltype(place)>>(there);
        };
        move(task.Count);
        move(task.Shift);
        move(task.First);
        move(task.Second);
        move(task.Min);
        move(task.Max);
        move(task.Bins);
        for (unsigned i = 0; i < task.Steps; ++i)
        {
            move(task.Which[i]);
        }
        run_fold(kernel, &task);
    }

    /** What a launch uses, one place after the other; null at the end.
     * @return blocks of threads that it counts on */
    unsigned look_at_fold(const void *asked, const void **places)
    {
        const auto &task = *static_cast<const bbflow::FoldTask *>(asked);
        for (const void *place : std::initializer_list<const void *>{
                 task.Count, task.Shift, task.First, task.Second, task.Min, task.Max, task.Bins})
        {
            if (place != nullptr)
            {
                *places++ = place;
            }
        }
        for (unsigned i = 0; i < task.Steps; ++i)
        {
            *places++ = task.Which[i];
        }
        *places = nullptr;
        return task.Blocks;
    }

    unsigned fold_task_bytes() { return sizeof(bbflow::FoldTask); }
    unsigned range_task_bytes() { return sizeof(bbflow::RangeTask); }
}
