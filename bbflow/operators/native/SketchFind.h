#pragma once

#include "SketchTemplate.h"

#include <cstring>

namespace bbflow
{

/** Numbers in the order of the values of a type, so that halving an interval of numbers finds a
 * value. */
template <class T>
struct Ordinal
{
    using Bits = std::conditional_t<
        sizeof(T) == 1, uint8_t,
        std::conditional_t<sizeof(T) == 2, uint16_t,
                           std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
    static constexpr Bits Sign = Bits(Bits(1) << (8 * sizeof(T) - 1));

    static Bits Of(const T value)
    {
        Bits bits;
        std::memcpy(&bits, &value, sizeof(T));
        if (!std::is_signed_v<T>)
        {
            return bits;
        }
        return std::is_floating_point_v<T> && (bits & Sign) ? Bits(~bits) : Bits(bits ^ Sign);
    }

    static T Value(const Bits ordinal)
    {
        Bits bits = ordinal;
        if (std::is_signed_v<T>)
        {
            bits = std::is_floating_point_v<T> && !(ordinal & Sign) ? Bits(~ordinal)
                                                                    : Bits(ordinal ^ Sign);
        }
        T value;
        std::memcpy(&value, &bits, sizeof(T));
        return value;
    }
};

/** What one column holds, by levels. */
template <class T>
class SketchSamples
{
public:
    explicit SketchSamples(const SketchShape &shape) : m_Rows((shape.Top + 2) * shape.Size) {}

    void Load(const SketchColumn<T> &column, const SketchFill &fill)
    {
        m_Parts.clear();
        m_Used = 0;
        Take(column.Values, column, fill.Buffered(), 1);
        for (uint64_t level = 0; level <= fill.Top; ++level)
        {
            const uint64_t units = fill.Units(level);
            Take(column.Run(level), column, units ? fill.Size : 0, units << level);
        }
    }

    /** For each lane the weight of what isn't above its limit. */
    void Weigh(const LaneRow<T> &limit, int32_t *sums) const
    {
        std::fill_n(sums, LaneCount<T>, 0);
        for (const Part &part : m_Parts)
        {
            AddWeights(m_Rows.data() + part.Row, part.Count, part.Weight, limit, sums);
        }
    }

private:
    struct Part
    {
        uint64_t Row;
        uint64_t Count;
        int32_t Weight;
    };
    std::vector<LaneRow<T>> m_Rows;
    std::vector<Part> m_Parts;
    uint64_t m_Used = 0;

    void Take(const T *from, const SketchColumn<T> &column, const uint64_t count,
              const uint64_t weight)
    {
        for (uint64_t i = 0; i < count; ++i)
        {
            std::copy_n(from + i * column.Stride, column.Points, m_Rows[m_Used + i].Values);
        }
        m_Parts.push_back({m_Used, count, int32_t(weight)});
        m_Used += count;
    }
};

/** Finds the values of one column by halving. */
template <class T>
void FindColumn(const SketchSamples<T> &samples, const int64_t *weights, const T *max, T *result,
                const uint64_t points)
{
    using Bits = typename Ordinal<T>::Bits;
    Bits low[LaneCount<T>];
    Bits high[LaneCount<T>];
    std::fill_n(low, LaneCount<T>, Ordinal<T>::Of(Lowest<T>()));
    std::fill_n(high, LaneCount<T>, Ordinal<T>::Of(Padding<T>));
    for (uint64_t round = 0; round < 8 * sizeof(T); ++round)
    {
        LaneRow<T> middle;
        int32_t sums[LaneCount<T>];
        for (uint64_t lane = 0; lane < LaneCount<T>; ++lane)
        {
            middle.Values[lane] =
                Ordinal<T>::Value(Bits(low[lane] + Bits(high[lane] - low[lane]) / 2));
        }
        samples.Weigh(middle, sums);
        for (uint64_t lane = 0; lane < points; ++lane)
        {
            const Bits at = Bits(low[lane] + Bits(high[lane] - low[lane]) / 2);
            const bool reached = sums[lane] >= weights[lane];
            high[lane] = reached ? at : high[lane];
            low[lane] = reached || low[lane] == high[lane] ? low[lane] : Bits(at + 1);
        }
    }
    for (uint64_t lane = 0; lane < points; ++lane)
    {
        result[lane] = std::min(Ordinal<T>::Value(high[lane]), max[lane]);
    }
}

template <class T>
void FindInSketch(const SketchShape &shape, const Sketch &state, const int64_t *weights,
                  void *result)
{
    SketchSamples<T> samples(shape);
    ForEqual(shape.Points, state.Seen, state.Seen,
             [&](const uint64_t at, const uint64_t points)
             {
                 const SketchFill fill{uint64_t(state.Seen[at]), shape.Size, shape.Top};
                 ForColumns<T>(at, points,
                               [&](const uint64_t start, const uint64_t lanes)
                               {
                                   samples.Load(ColumnAt<T>(shape, state, start, lanes), fill);
                                   FindColumn(samples, weights + start,
                                              static_cast<T *>(state.Max) + start,
                                              static_cast<T *>(result) + start, lanes);
                               });
             });
}

} // end namespace bbflow
