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
     * @param mapped how far registered memory lies from where the device sees it
     * @return how many places of the task aren't the device's to see */
    int run_pack(void (*kernel)(const bbflow::PackTask), const void *asked, unsigned blocks,
                 ptrdiff_t shadow, uintptr_t mapped)
    {
        auto task = *static_cast<const bbflow::PackTask *>(asked);
        int wrong = task.Blocks != blocks;
        for (unsigned i = 0; i < task.Parts; ++i)
        {
            task.Which[i].First += shadow;
        }
        for (void **place : {&task.Target, &task.Ranges})
        {
            const auto seen = reinterpret_cast<uintptr_t>(*place);
            wrong += seen != 0 && seen < mapped;
            *place = reinterpret_cast<void *>(seen != 0 ? seen - mapped : 0);
        }
        for (bbflow_thread = 0; !wrong && bbflow_thread < blocks * bbflow::PackTask::BlockThreads;
             ++bbflow_thread)
        {
            kernel(task);
        }
        return wrong;
    }

    /** What a launch asks for: where its values lie, how many bytes they have, where they go, and
     * where its ranges. */
    void look_at_pack(const void *asked, const char **first, size_t *bytes, void **target,
                      void **ranges)
    {
        const auto &task = *static_cast<const bbflow::PackTask *>(asked);
        *first = task.Which[0].First;
        *bytes = 0;
        for (unsigned i = 0; i < task.Parts; ++i)
        {
            *bytes += task.Which[i].RowBytes * task.Which[i].Rows;
        }
        *target = task.Target;
        *ranges = task.Ranges;
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

    /** Runs it as a GPU would, which has what it sees elsewhere: see run_pack. */
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
                 task.Count, task.Shift, task.First, task.Second, task.Min, task.Max})
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
    unsigned pack_task_bytes() { return sizeof(bbflow::PackTask); }
}
