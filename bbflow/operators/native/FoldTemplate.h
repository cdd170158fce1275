#pragma once

#include "Tile.h"

#include <algorithm>
#include <vector>

/** A tile's source may be its target, index by index: that is no obstacle to vectors. */
#if defined(__clang__)
#define BBFLOW_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define BBFLOW_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace bbflow
{

/** What a fold is specialised for: asking for less costs less. */
template <class V, int M, bool LO, bool HI, bool FILL>
struct Kind
{
    using Value = V;
    static constexpr int Moments = M; ///< 0: none, 1: first, 2: first and second
    static constexpr bool HasMin = LO;
    static constexpr bool HasMax = HI;
    static constexpr bool HasFill = FILL;
};

namespace
{

/** Neither NaN nor the fill value; bitwise, so that it vectorises. */
template <class K, class T>
BBFLOW_INLINE bool IsValid(const T value, const T fill)
{
    return K::HasFill ? (value == value) & (value != fill) : value == value;
}

/** Whether some point has no value yet. */
BBFLOW_INLINE bool HasEmpty(const int32_t *counts, const uint64_t n)
{
    int32_t empty = 0;
    for (uint64_t i = 0; i < n; ++i)
    {
        empty |= counts[i] == 0;
    }
    return empty != 0;
}

/**
 * Gives points without any value so far their shift: their first valid value, 0 if that is
 * infinite.
 * @param scratch gets the new shifts; its counts are used up
 * @return whether there were such points
 */
template <class K, class T>
BBFLOW_INLINE bool FindShift(Tile<T> &scratch, const Fields<T> &in, const T *const *blocks,
                             const uint64_t steps, const uint64_t n, const T fill)
{
    if (!HasEmpty(in.Count, n))
    {
        return false;
    }
    int32_t *seen = scratch.Count;
    T *shifts = scratch.Shift;
    std::memcpy(seen, in.Count, n * sizeof(int32_t));
    std::memcpy(shifts, in.Shift, n * sizeof(T));
    for (uint64_t k = 0; k < steps && HasEmpty(seen, n); ++k)
    {
        const T *block = blocks[k];
        BBFLOW_INDEPENDENT
        for (uint64_t i = 0; i < n; ++i)
        {
            const T value = block[i];
            const T shift = value - value == 0 ? value : T(0);
            const bool valid = IsValid<K>(value, fill);
            shifts[i] = (seen[i] == 0) & valid ? shift : shifts[i];
            seen[i] += valid;
        }
    }
    return true;
}

/** Takes N steps in, with each point's accumulators in registers; `out` may be `in`. */
template <class K, int N, class T>
BBFLOW_INLINE void FoldGroup(const Fields<T> &out, const Fields<T> &in, const T *const *blocks,
                             const uint64_t n, const T fill)
{
    const Fields<T> from = in;
    const Fields<T> to = out;
    const T *values[N];
    for (int k = 0; k < N; ++k)
    {
        values[k] = blocks[k];
    }
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < n; ++i)
    {
        int32_t count = from.Count[i];
        const double shift = K::Moments > 0 ? double(from.Shift[i]) : 0;
        double first = K::Moments > 0 ? from.First[i] : 0;
        double second = K::Moments > 1 ? from.Second[i] : 0;
        T min = K::HasMin ? from.Min[i] : T();
        T max = K::HasMax ? from.Max[i] : T();
#pragma GCC unroll 8
        for (int k = 0; k < N; ++k)
        {
            const T value = values[k][i];
            const bool valid = IsValid<K>(value, fill);
            count += valid;
            // Subtract first, then select: a branch around the subtraction would not vectorise.
            const double difference = double(value) - shift;
            const double d = valid ? difference : 0;
            first += d;
            second += d * d;
            // A NaN compares false, so only the fill value needs a word.
            min = (K::HasFill ? valid & (value < min) : value < min) ? value : min;
            max = (K::HasFill ? valid & (value > max) : value > max) ? value : max;
        }
        to.Count[i] = count;
        if (K::Moments > 0)
        {
            to.First[i] = first;
        }
        if (K::Moments > 1)
        {
            to.Second[i] = second;
        }
        if (K::HasMin)
        {
            to.Min[i] = min;
        }
        if (K::HasMax)
        {
            to.Max[i] = max;
        }
    }
}

/** Gives the fields of a tile's later points. */
template <class T>
BBFLOW_INLINE Fields<T> Later(const Fields<T> &fields, const uint64_t at)
{
    return {fields.Count + at,  fields.Shift + at, fields.First + at,
            fields.Second + at, fields.Min + at,   fields.Max + at};
}

/** Takes N steps in, part by part, and fetches as much of those that follow meanwhile: all at once,
 * and nothing, where `following` is null. */
template <class K, int N, class T>
BBFLOW_INLINE void FoldFetching(const Fields<T> &out, const Fields<T> &in, const T *const *blocks,
                                const T *const *following, const uint64_t n, const T fill)
{
    constexpr uint64_t lineBytes = 64;
    const uint64_t part = following ? 64 : n;
    for (uint64_t at = 0; at < n; at += part)
    {
        const T *own[N];
        for (int k = 0; k < N; ++k)
        {
            own[k] = blocks[k] + at;
            for (uint64_t i = 0; following && i < part; i += lineBytes / sizeof(T))
            {
                __builtin_prefetch(following[k] + at + i);
            }
        }
        FoldGroup<K, N>(Later(out, at), Later(in, at), own, std::min(part, n - at), fill);
    }
}

/**
 * Folds one tile.
 * @param target where the state goes at last
 * @param in the state so far; may be `target`
 * @param scratch room for new shifts, and for the state if it is streamed
 */
template <class K, class T>
BBFLOW_INLINE void FoldTile(const Fields<T> &target, Fields<T> in, Tile<T> &scratch,
                            const T *const *blocks, const uint64_t steps, const uint64_t n,
                            const T fill, const bool streaming)
{
    const Fields<T> out = streaming ? scratch.GetFields() : target;
    const T *oldShift = in.Shift;
    if (K::Moments > 0 && FindShift<K>(scratch, in, blocks, steps, n, fill))
    {
        in.Shift = scratch.Shift;
    }
    T *const shift = in.Shift;
    uint64_t k = 0;
    const auto advance = [&](const uint64_t taken)
    {
        k += taken;
        in = out;
        in.Shift = shift;
    };
    const bool fetching = steps > FollowedSteps;
    while (k + 8 <= steps)
    {
        const T *const *const own = blocks + k;
        const T *const *const following = k + 16 <= steps ? own + 8 : own;
        FoldFetching<K, 8>(out, in, own, fetching ? following : nullptr, n, fill);
        advance(8);
    }
    while (k + 2 <= steps)
    {
        FoldGroup<K, 2>(out, in, blocks + k, n, fill);
        advance(2);
    }
    while (k < steps)
    {
        FoldGroup<K, 1>(out, in, blocks + k, n, fill);
        advance(1);
    }
    if (K::Moments > 0 && (shift != oldShift || oldShift != target.Shift))
    {
        streaming ? Stream(target.Shift, shift, n)
                  : void(std::memcpy(target.Shift, shift, n * sizeof(T)));
    }
    if (streaming)
    {
        Stream(target.Count, out.Count, n);
        K::Moments > 0 ? Stream(target.First, out.First, n) : void();
        K::Moments > 1 ? Stream(target.Second, out.Second, n) : void();
        K::HasMin ? Stream(target.Min, out.Min, n) : void();
        K::HasMax ? Stream(target.Max, out.Max, n) : void();
    }
}

/** Notes which values of a tile pass, while the tile is in the cache. */
template <bool FILL, class T>
BBFLOW_INLINE void FilterTile(const BbflowTask &task, const BbflowFilter &filter, const uint64_t at,
                              const uint64_t n, const T fill)
{
    const T lowest = *static_cast<const T *>(filter.Lowest);
    const T highest = *static_cast<const T *>(filter.Highest);
    for (uint64_t k = 0; k < task.Steps; ++k)
    {
        if (filter.Skip[k])
        {
            continue;
        }
        const T *block = static_cast<const T *>(task.Blocks[k]) + at;
        uint32_t passing = 0;
        for (uint64_t i = 0; i < n; ++i)
        {
            const T value = block[i];
            passing += (value >= lowest) & (value <= highest) & (!FILL || value != fill);
        }
        for (uint64_t i = 0; passing > 0; ++i)
        {
            const T value = block[i];
            if ((value >= lowest) & (value <= highest) & (!FILL || value != fill))
            {
                filter.Rows->Rows.push_back({int64_t(k), int64_t(at + i)});
                --passing;
            }
        }
    }
}

/** Lets the arrays that are computed but not wanted go nowhere. */
template <class T>
BBFLOW_INLINE Fields<T> Complete(Fields<T> fields, Tile<T> &scratch)
{
    fields.Second = fields.Second ? fields.Second : scratch.Second;
    fields.Min = fields.Min ? fields.Min : scratch.Min;
    fields.Max = fields.Max ? fields.Max : scratch.Max;
    return fields;
}

/** One pass: every tile is folded and filtered before the next one is touched. */
template <class K>
BBFLOW_INLINE void FoldAll(const BbflowTask &task)
{
    using T = typename K::Value;
    const T fill = K::HasFill ? *static_cast<const T *>(task.Fill) : T();
    const bool inPlace = task.Source[BbflowCount] == task.Target[BbflowCount];
    const uint64_t pointBytes = sizeof(int32_t) + (K::Moments > 0 ? sizeof(T) : 0) +
                                K::Moments * sizeof(double) + (K::HasMin + K::HasMax) * sizeof(T);
    const bool streaming = !inPlace && task.Points * pointBytes > StreamingBytes;
    Tile<T> identity;
    Tile<T> scratch;
    SetIdentity(identity);
    SetIdentity(scratch);
    std::vector<const T *> blocks(task.Steps);
    for (uint64_t at = 0; at < task.Points; at += TilePoints)
    {
        const uint64_t n = std::min(TilePoints, task.Points - at);
        for (uint64_t k = 0; k < task.Steps; ++k)
        {
            blocks[k] = static_cast<const T *>(task.Blocks[k]) + at;
        }
        if (task.Target[BbflowCount])
        {
            const Fields<T> target = Complete(FieldsAt<T>(task.Target, at), scratch);
            const Fields<T> source = task.Source[BbflowCount]
                                         ? Complete(FieldsAt<T>(task.Source, at), scratch)
                                         : identity.GetFields();
            FoldTile<K>(target, source, scratch, blocks.data(), task.Steps, n, fill, streaming);
        }
        for (uint64_t f = 0; f < task.FilterCount; ++f)
        {
            FilterTile<K::HasFill>(task, task.Filters[f], at, n, fill);
        }
    }
#if defined(__SSE2__)
    _mm_sfence(); // streamed stores are seen by whoever is told of this call's end
#endif
}

} // namespace

} // end namespace bbflow
