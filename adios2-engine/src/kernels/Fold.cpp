/* Folds a field's steps where they lie, on a GPU, as FoldTemplate.h does on a CPU: the same
 * additions in the same order, so that states are the same to the bit. No header of the system's.
 */
#include "FoldTask.h"
#include "Thread.h"

namespace bbflow
{

/** Takes all steps in, point by point: each one's state is in registers meanwhile. */
template <class T>
BBFLOW_DEVICE void Fold(const FoldTask &task)
{
    const T fill = *reinterpret_cast<const T *>(task.Fill);
    T *const shifts = static_cast<T *>(task.Shift);
    T *const mins = static_cast<T *>(task.Min);
    T *const maxs = static_cast<T *>(task.Max);
    const unsigned long long threads = 1ull * task.Blocks * FoldTask::BlockThreads;
    for (unsigned long long i = Thread<FoldTask>(); i < task.Points; i += threads)
    {
        int count = task.Count[i];
        T shift = task.First ? shifts[i] : T();
        double first = task.First ? task.First[i] : 0;
        double second = task.Second ? task.Second[i] : 0;
        T min = mins ? mins[i] : T();
        T max = maxs ? maxs[i] : T();
        for (unsigned k = 0; k < task.Steps; ++k)
        {
            const T value = static_cast<const T *>(task.Which[k])[i];
            const bool valid = value == value && !(task.HasFill && value == fill);
            // The shift is the first valid value, 0 if that is infinite.
            shift = count == 0 && valid ? (value - value == 0 ? value : T(0)) : shift;
            count += valid;
            const double d = valid ? double(value) - double(shift) : 0;
            first += d;
            second += d * d;
            min = valid && value < min ? value : min;
            max = valid && value > max ? value : max;
        }
        task.Count[i] = count;
        if (task.First)
        {
            shifts[i] = shift;
            task.First[i] = first;
        }
        if (task.Second)
        {
            task.Second[i] = second;
        }
        if (mins)
        {
            mins[i] = min;
        }
        if (maxs)
        {
            maxs[i] = max;
        }
    }
}

} // end namespace bbflow

#define BBFLOW_DEFINE_FOLD(NAME, T)                                                                \
    BBFLOW_KERNEL void bbflow_fold_##NAME(const bbflow::FoldTask task) { bbflow::Fold<T>(task); }
BBFLOW_DEFINE_FOLD(i1, signed char)
BBFLOW_DEFINE_FOLD(i2, short)
BBFLOW_DEFINE_FOLD(i4, int)
BBFLOW_DEFINE_FOLD(i8, long long)
BBFLOW_DEFINE_FOLD(u1, unsigned char)
BBFLOW_DEFINE_FOLD(u2, unsigned short)
BBFLOW_DEFINE_FOLD(u4, unsigned)
BBFLOW_DEFINE_FOLD(u8, unsigned long long)
BBFLOW_DEFINE_FOLD(f4, float)
BBFLOW_DEFINE_FOLD(f8, double)
