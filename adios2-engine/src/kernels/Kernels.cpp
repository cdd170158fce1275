/* What GPUs do with blocks. clang makes PTX of it and HIP's runtime compiler what AMD's GPUs run;
 * for the tests it is compiled for the CPU. None of them needs a header of the system's. */
#include "FoldTask.h"
#include "RangeTask.h"
#include "Thread.h"

namespace bbflow
{

/** What is above and below all values, as MinMax.h has it. */
template <class T>
struct Ends
{
    static constexpr bool IsSigned = T(-1) < T(0);
    static constexpr T Highest = IsSigned ? T((1ull << (8 * sizeof(T) - 1)) - 1) : T(-1);
    static constexpr T Lowest = IsSigned ? T(-Highest - 1) : T(0);
};

template <>
struct Ends<float>
{
    static constexpr float Highest = __builtin_huge_valf(), Lowest = -Highest;
};

template <>
struct Ends<double>
{
    static constexpr double Highest = __builtin_huge_val(), Lowest = -Highest;
};

/** Takes all values that are a thread's: every so-many-th of a part, so that neighbours' lie
 * together. */
template <class T>
BBFLOW_DEVICE void FindRange(const RangeTask &task)
{
    constexpr int ahead = 4; // values that are on their way at a time
    const unsigned long long threads = 1ull * task.Blocks * RangeTask::BlockThreads;
    const unsigned long long thread = Thread<RangeTask>() % threads;
    const RangeTask::Part part = task.Which[Thread<RangeTask>() / threads];
    const unsigned long long length = part.RowBytes / sizeof(T), count = length * part.Rows;
    T smallest = Ends<T>::Highest, largest = Ends<T>::Lowest;
    for (unsigned long long at = thread; at < count; at += ahead * threads)
    {
        T some[ahead];
        for (int k = 0; k < ahead; ++k)
        {
            const unsigned long long i = at + k * threads;
            const unsigned long long row = part.Rows == 1 ? 0 : i / length;
            const char *const begin = part.First + row * part.PitchBytes;
            const auto values = reinterpret_cast<const T *>(begin) - row * length;
            some[k] = i < count ? values[i] : smallest;
        }
        for (int k = 0; k < ahead; ++k)
        {
            // A NaN is neither.
            const bool counts = at + k * threads < count;
            smallest = counts && some[k] < smallest ? some[k] : smallest;
            largest = counts && some[k] > largest ? some[k] : largest;
        }
    }
    T *const range = static_cast<T *>(part.Ranges) + 2 * thread;
    range[0] = smallest;
    range[1] = largest;
}

/** Takes all steps in, point by point: each one's state is in registers meanwhile. It makes the
 * same additions in the same order as FoldTemplate.h does on a CPU: states are the same to the bit.
 */
template <class T>
BBFLOW_DEVICE void Fold(const FoldTask &task)
{
    const T fill = *reinterpret_cast<const T *>(task.Fill);
    const bool goesOn = task.Begins == 0;
    T *const shifts = static_cast<T *>(task.Shift);
    T *const mins = static_cast<T *>(task.Min);
    T *const maxs = static_cast<T *>(task.Max);
    const unsigned long long threads = 1ull * task.Blocks * FoldTask::BlockThreads;
    for (unsigned long long i = Thread<FoldTask>(); i < task.Points; i += threads)
    {
        int count = goesOn ? task.Count[i] : 0;
        T shift = goesOn && task.First ? shifts[i] : T();
        double first = goesOn && task.First ? task.First[i] : 0;
        double second = goesOn && task.Second ? task.Second[i] : 0;
        T min = goesOn && mins ? mins[i] : Ends<T>::Highest;
        T max = goesOn && maxs ? maxs[i] : Ends<T>::Lowest;
        for (unsigned row = 0; row < (goesOn ? 0 : task.Rows); ++row)
        {
            task.Bins[row * task.Points + i] = 0;
        }
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
            if (task.Bins && valid)
            {
                // All threads read the same break at a time, which a search would not let them.
                unsigned row = 0;
                for (unsigned r = 0; r < task.Rows; ++r)
                {
                    row += double(value) >= task.Breaks[r];
                }
                ++task.Bins[row * task.Points + i];
            }
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

#define BBFLOW_DEFINE_RANGE(NAME, T)                                                               \
    BBFLOW_KERNEL void bbflow_range_##NAME(const bbflow::RangeTask task)                           \
    {                                                                                              \
        bbflow::FindRange<T>(task);                                                                \
    }
BBFLOW_DEFINE_RANGE(i1, signed char)
BBFLOW_DEFINE_RANGE(i2, short)
BBFLOW_DEFINE_RANGE(i4, int)
BBFLOW_DEFINE_RANGE(i8, long long)
BBFLOW_DEFINE_RANGE(u1, unsigned char)
BBFLOW_DEFINE_RANGE(u2, unsigned short)
BBFLOW_DEFINE_RANGE(u4, unsigned)
BBFLOW_DEFINE_RANGE(u8, unsigned long long)
BBFLOW_DEFINE_RANGE(f4, float)
BBFLOW_DEFINE_RANGE(f8, double)
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
