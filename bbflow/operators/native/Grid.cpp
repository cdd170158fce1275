#include "Doubles.h"
#include "Histogram.h"
#include "Kinds.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace bbflow
{

namespace
{

constexpr uint64_t GridPoints = 128;
constexpr int32_t FinestBits = 45; ///< of the largest value; cells are exact in float64
constexpr int32_t LeastExponent = -1000;

/** Which bins of the common grid of an exponent are needed. */
struct GridRange
{
    int32_t Exponent;
    int64_t First;
    int64_t Last;

    GridRange At(const int32_t exponent) const
    {
        const int32_t shift = std::min(exponent - Exponent, 63); // an arithmetic shift rounds down
        return {exponent, First >> shift, Last >> shift};
    }
};

/** Gives the finest grid on which some values need at most `bins` bins. */
GridRange Narrowest(GridRange range, const uint64_t bins)
{
    while (range.Last - range.First >= int64_t(bins))
    {
        range = range.At(range.Exponent + 1);
    }
    return range;
}

GridRange Join(const GridRange &a, const GridRange &b, const uint64_t bins)
{
    const int32_t exponent = std::max(a.Exponent, b.Exponent);
    const GridRange left = a.At(exponent);
    const GridRange right = b.At(exponent);
    return Narrowest({exponent, std::min(left.First, right.First), std::max(left.Last, right.Last)},
                     bins);
}

/** The finest grid for values between two limits, both finite. */
GridRange RangeOf(const double least, const double largest, const uint64_t bins)
{
    const double magnitude = std::max(std::fabs(least), std::fabs(largest));
    const int32_t exponent =
        magnitude > 0 ? std::max(std::ilogb(magnitude) - FinestBits, LeastExponent) : LeastExponent;
    return Narrowest({exponent, int64_t(std::floor(std::ldexp(least, -exponent))),
                      int64_t(std::floor(std::ldexp(largest, -exponent)))},
                     bins);
}

/** ldexp(1, exponent), which is slow in most libraries. */
inline double PowerOf2(const int32_t exponent)
{
    if (exponent < -1022 || exponent > 1023)
    {
        return std::ldexp(1.0, exponent);
    }
    const uint64_t bits = uint64_t(exponent + 1023) << 52;
    double power;
    std::memcpy(&power, &bits, sizeof(power));
    return power;
}

/** One point of a state. */
class GridPoint
{
public:
    GridPoint(const Grid &state, const uint64_t bins, const uint64_t at)
    : m_State(state), m_Bins(bins), m_At(at)
    {
    }

    bool IsEmpty() const { return m_State.Last[m_At] < 0; }

    /** Whether two values are in bins that are there. */
    bool Has(const double least, const double largest) const
    {
        const double scale = PowerOf2(-m_State.Exponent[m_At]);
        const double first = double(m_State.Origin[m_At]);
        const int32_t last = m_State.Last[m_At];
        return last >= 0 && least * scale >= first && largest * scale < first + last + 1;
    }

    GridRange Range() const
    {
        const int64_t first = m_State.Origin[m_At];
        return {m_State.Exponent[m_At], first, first + m_State.Last[m_At]};
    }

    int32_t &Count(const uint64_t bin) const { return m_State.Counts[bin * m_State.Stride + m_At]; }

    /** Makes room for more values; `scratch` has `bins` numbers. */
    void Include(const GridRange &more, int32_t *scratch) const
    {
        if (IsEmpty())
        {
            Set(more);
            return;
        }
        const GridRange now = Range();
        const GridRange joined = Join(now, more, m_Bins);
        if (joined.Exponent != now.Exponent || joined.First != now.First)
        {
            std::fill_n(scratch, m_Bins, 0);
            for (int64_t bin = 0; bin <= now.Last - now.First; ++bin)
            {
                const int64_t cell = now.First + bin;
                const GridRange moved = GridRange{now.Exponent, cell, cell}.At(joined.Exponent);
                scratch[moved.First - joined.First] += Count(bin);
            }
            for (uint64_t bin = 0; bin < m_Bins; ++bin)
            {
                Count(bin) = scratch[bin];
            }
        }
        Set(joined);
    }

    /** Adds counts, for which there is room. */
    void Add(const GridPoint &other) const
    {
        const GridRange range = other.Range();
        for (int64_t bin = 0; bin <= range.Last - range.First; ++bin)
        {
            const int64_t cell = range.First + bin;
            const GridRange moved = GridRange{range.Exponent, cell, cell}.At(Range().Exponent);
            Count(moved.First - Range().First) += other.Count(bin);
        }
    }

private:
    const Grid &m_State;
    uint64_t m_Bins;
    uint64_t m_At;

    void Set(const GridRange &range) const
    {
        m_State.Exponent[m_At] = range.Exponent;
        m_State.Origin[m_At] = range.First;
        m_State.Last[m_At] = int32_t(range.Last - range.First);
    }
};

/** A tile's values and counts, apart from the state, whose rows lie far from each other. */
struct GridWork
{
    explicit GridWork(const uint64_t bins) : Counts((bins + 1) * GridPoints), Scratch(bins) {}

    std::vector<int32_t> Counts; ///< a row for each bin, and one for what is in none
    std::vector<int32_t> Scratch;
    std::vector<double> Values; ///< `GridPoints` of each step
    alignas(64) double Least[GridPoints];
    alignas(64) double Largest[GridPoints];
    alignas(64) double Scale[GridPoints];
    alignas(64) double Origin[GridPoints];
    alignas(64) int32_t Bin[GridPoints];
};

/** Finds the smallest and the largest finite values, and counts the infinite ones. */
BBFLOW_CLONES void FindExtremes(const double *values, const uint64_t points, double *least,
                                double *largest, int32_t *below, int32_t *above)
{
    constexpr double infinity = std::numeric_limits<double>::infinity();
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < points; ++i)
    {
        const double value = values[i];
        const bool finite = value - value == 0;
        least[i] = finite & (value < least[i]) ? value : least[i];
        largest[i] = finite & (value > largest[i]) ? value : largest[i];
        below[i] += value == -infinity;
        above[i] += value == infinity;
    }
}

BBFLOW_CLONES void FindBins(const double *values, const double *scale, const double *origin,
                            const uint64_t points, const int32_t none, int32_t *bins)
{
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < points; ++i)
    {
        const double bin = std::floor(values[i] * scale[i]) - origin[i];
        const bool finite = values[i] - values[i] == 0;
        bins[i] = int32_t(finite ? bin : none);
    }
}

/** Folds a tile of at most `GridPoints`, whose fields begin at those of `state`, and whose counts
 * are those of the work. */
void FoldGridTile(const Grid &state, const uint64_t bins, GridWork &work, const uint64_t steps,
                  const uint64_t points)
{
    constexpr double infinity = std::numeric_limits<double>::infinity();
    std::fill_n(work.Least, points, infinity);
    std::fill_n(work.Largest, points, -infinity);
    for (uint64_t k = 0; k < steps; ++k)
    {
        FindExtremes(work.Values.data() + k * GridPoints, points, work.Least, work.Largest,
                     state.Below, state.Above);
    }
    for (uint64_t i = 0; i < points; ++i)
    {
        if (work.Least[i] <= work.Largest[i] &&
            !GridPoint(state, bins, i).Has(work.Least[i], work.Largest[i]))
        {
            GridPoint(state, bins, i)
                .Include(RangeOf(work.Least[i], work.Largest[i], bins), work.Scratch.data());
        }
        work.Scale[i] = PowerOf2(-state.Exponent[i]);
        work.Origin[i] = double(state.Origin[i]);
    }
    for (uint64_t k = 0; k < steps; ++k)
    {
        FindBins(work.Values.data() + k * GridPoints, work.Scale, work.Origin, points,
                 int32_t(bins), work.Bin);
        for (uint64_t i = 0; i < points; ++i)
        {
            ++work.Counts[work.Bin[i] * GridPoints + i];
        }
    }
}

Grid GridAt(const Grid &state, const uint64_t at)
{
    return {state.Counts + at, state.Stride,     state.Origin + at, state.Exponent + at,
            state.Last + at,   state.Below + at, state.Above + at};
}

void CopyCounts(const Grid &from, const Grid &to, const uint64_t bins, const uint64_t points)
{
    for (uint64_t bin = 0; bin < bins; ++bin)
    {
        std::copy_n(from.Counts + bin * from.Stride, points, to.Counts + bin * to.Stride);
    }
}

/** Gives a tile with its counts side by side: rows that lie far apart share few sets of a cache. */
Grid WithCounts(const Grid &tile, const uint64_t bins, const uint64_t points,
                std::vector<int32_t> &counts)
{
    Grid local = tile;
    local.Counts = counts.data();
    local.Stride = GridPoints;
    CopyCounts(tile, local, bins, points);
    return local;
}

} // namespace

void FoldGrid(const int type, const uint64_t bins, const Grid &state, const void *const *blocks,
              const uint64_t steps, const uint64_t points, const void *fill)
{
    GridWork work(bins);
    work.Values.resize(steps * GridPoints);
    for (uint64_t at = 0; at < points; at += GridPoints)
    {
        const uint64_t count = std::min(GridPoints, points - at);
        const Grid tile = GridAt(state, at);
        for (uint64_t k = 0; k < steps; ++k)
        {
            ToDoubles(type, blocks[k], at, fill, count, work.Values.data() + k * GridPoints);
        }
        const Grid own = WithCounts(tile, bins, count, work.Counts);
        FoldGridTile(own, bins, work, steps, count);
        CopyCounts(own, tile, bins, count);
    }
}

void MergeGrid(const uint64_t bins, const Grid &state, const Grid &more, const uint64_t points)
{
    std::vector<int32_t> counts(bins * GridPoints), added(bins * GridPoints), scratch(bins);
    for (uint64_t at = 0; at < points; at += GridPoints)
    {
        const uint64_t count = std::min(GridPoints, points - at);
        const Grid tile = GridAt(state, at), other = GridAt(more, at);
        const Grid to = WithCounts(tile, bins, count, counts);
        const Grid from = WithCounts(other, bins, count, added);
        for (uint64_t i = 0; i < count; ++i)
        {
            const GridPoint into(to, bins, i), of(from, bins, i);
            to.Below[i] += from.Below[i];
            to.Above[i] += from.Above[i];
            if (!of.IsEmpty())
            {
                into.Include(of.Range(), scratch.data());
                into.Add(of);
            }
        }
        CopyCounts(to, tile, bins, count);
    }
}

} // end namespace bbflow
