#include "Levels.h"

#include "Kinds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <vector>

namespace bbflow
{

namespace
{

constexpr uint64_t Tile = 64; ///< this many columns' coordinates stay in the nearest cache
constexpr uint64_t Lanes = 8;
constexpr double Infinite = std::numeric_limits<double>::infinity();
constexpr double Missing = std::numeric_limits<double>::quiet_NaN();

/** Some neighbouring columns: their coordinates, which grow towards the ground, and their values.
 */
template <class T>
class Columns
{
public:
    explicit Columns(const BbflowColumns &task)
    : m_Task(task), m_Coordinates(task.Interfaces * Tile), m_Least(task.Interfaces),
      m_Most(task.Interfaces), m_Fill(task.Fill ? *static_cast<const T *>(task.Fill) : T(Missing))
    {
    }

    /** Makes what the columns of one place before the levels come to, from one column on. */
    void Make(const uint64_t before, const uint64_t first)
    {
        m_Count = std::min(Tile, m_Task.After - first);
        const uint64_t column = before * m_Task.After + first;
        const uint64_t place = before * m_Task.Levels * m_Task.After + first;
        m_Values = static_cast<const T *>(m_Task.Values) + place;
        m_Ground = m_Task.Surface ? m_Task.Surface + column : nullptr;
        m_Result = static_cast<T *>(m_Task.Result) + before * m_Task.Targets * m_Task.After + first;
        m_Place = before * m_Task.Interfaces * m_Task.After + first;
        m_Made = false;
        if (m_Task.Make != BBFLOW_LEVELS_TO || m_Task.Points)
        {
            MakeCoordinates();
        }
        switch (m_Task.Make)
        {
        case BBFLOW_LEVELS_TO:
            return Interpolate();
        case BBFLOW_LEVELS_DERIVATIVE:
            return Derive();
        default:
            return Integrate();
        }
    }

private:
    const BbflowColumns &m_Task;
    std::vector<double> m_Coordinates; ///< level by level
    std::vector<double> m_Least;       ///< of each level by its number below the top
    std::vector<double> m_Most;
    const T m_Fill;
    const T *m_Values = nullptr;
    const double *m_Ground = nullptr;
    T *m_Result = nullptr;
    uint64_t m_Count = 0;
    uint64_t m_Place = 0;     ///< of the first coordinate among Points
    bool m_Made = false;      ///< whether the coordinates of all levels are there
    bool m_TileFalls = false; ///< whether the first level is the nearest to the ground everywhere
    bool m_AllRise = false;
    bool m_AllFall = false;
    bool m_Falls[Tile];  ///< whether the first level of a column is the nearest to the ground
    bool m_Usable[Tile]; ///< whether a column's coordinates go one way

    void MakeCoordinates()
    {
        if (!m_Made)
        {
            Coordinates(m_Place);
            Order();
            m_Made = true;
        }
    }

    void Coordinates(const uint64_t place)
    {
        double ground[Tile] = {};
        if (m_Task.B)
        {
            std::copy_n(m_Ground, m_Count, ground);
        }
        for (uint64_t level = 0; level < m_Task.Interfaces; ++level)
        {
            double *__restrict row = m_Coordinates.data() + level * Tile;
            if (m_Task.Points && m_Task.Wide)
            {
                Read(row,
                     static_cast<const double *>(m_Task.Points) + place + level * m_Task.After);
            }
            else if (m_Task.Points)
            {
                Read(row, static_cast<const float *>(m_Task.Points) + place + level * m_Task.After);
            }
            else
            {
                const double a = m_Task.Sign * m_Task.A[level];
                const double b = m_Task.B ? m_Task.Sign * m_Task.B[level] : 0.0;
                for (uint64_t at = 0; at < Tile; ++at)
                {
                    row[at] = a + b * ground[at];
                }
            }
            std::fill(row + m_Count, row + Tile,
                      row[0]); // limits and order are those of whole tiles
        }
    }

    template <class P>
    void Read(double *row, const P *points) const
    {
        for (uint64_t at = 0; at < m_Count; ++at)
        {
            row[at] = m_Task.Sign * double(points[at]);
        }
    }

    /** Sees which way the coordinates of each column go; a missing one makes its sum missing. */
    void Order()
    {
        const uint64_t last = m_Task.Interfaces - 1;
        double least[Tile];
        double most[Tile];
        double sum[Tile];
        std::fill_n(least, Tile, Infinite);
        std::fill_n(most, Tile, -Infinite);
        std::fill_n(sum, Tile, 0.0);
        for (uint64_t level = 0; level < last; ++level)
        {
            const double *row = m_Coordinates.data() + level * Tile;
            for (uint64_t at = 0; at < Tile; ++at)
            {
                const double step = row[at + Tile] - row[at];
                least[at] = step < least[at] ? step : least[at];
                most[at] = step > most[at] ? step : most[at];
                sum[at] += step;
            }
        }
        m_AllRise = m_AllFall = true;
        for (uint64_t at = 0; at < m_Count; ++at)
        {
            const bool there = std::isfinite(sum[at]) && std::isfinite(m_Coordinates[at]);
            m_Falls[at] = there && most[at] < 0;
            m_Usable[at] = there && (least[at] > 0 || most[at] < 0);
            m_AllFall &= m_Falls[at];
            m_AllRise &= m_Usable[at] && !m_Falls[at];
        }
    }

    /** Finds the least and the largest coordinate of each level, if all columns go one way. */
    void Limits()
    {
        for (uint64_t level = 0; level < m_Task.Interfaces; ++level)
        {
            const double *row = Row(level, nullptr);
            double least[Lanes];
            double most[Lanes];
            std::copy_n(row, Lanes, least);
            std::copy_n(row, Lanes, most);
            for (uint64_t at = Lanes; at < Tile; at += Lanes)
            {
                for (uint64_t lane = 0; lane < Lanes; ++lane)
                {
                    least[lane] = row[at + lane] < least[lane] ? row[at + lane] : least[lane];
                    most[lane] = row[at + lane] > most[lane] ? row[at + lane] : most[lane];
                }
            }
            m_Least[level] = *std::min_element(least, least + Lanes);
            m_Most[level] = *std::max_element(most, most + Lanes);
        }
    }

    /**
     * Does the same with coordinates that follow from where the ground is: between the lowest and
     * the highest ground they lie between those there, also rounded, and go the same way.
     * @return whether they go one way
     */
    bool LimitsOfHybrid()
    {
        double lowest = m_Task.B ? Infinite : 0.0;
        double highest = m_Task.B ? -Infinite : 0.0;
        double sum = 0.0;
        for (uint64_t at = 0; m_Task.B && at < Tile; ++at)
        {
            lowest = m_Ground[at] < lowest ? m_Ground[at] : lowest;
            highest = m_Ground[at] > highest ? m_Ground[at] : highest;
            sum += m_Ground[at];
        }
        if (!std::isfinite(sum))
        {
            return false;
        }
        bool rises = true;
        bool falls = true;
        double last[2] = {0.0, 0.0};
        for (uint64_t level = 0; level < m_Task.Interfaces; ++level)
        {
            const double one = Hybrid(level, lowest);
            const double other = Hybrid(level, highest);
            rises &= level == 0 || (one > last[0] && other > last[1]);
            falls &= level == 0 || (one < last[0] && other < last[1]);
            last[0] = one;
            last[1] = other;
            m_Least[level] = std::min(one, other);
            m_Most[level] = std::max(one, other);
        }
        m_TileFalls = falls;
        if (falls)
        {
            std::reverse(m_Least.begin(), m_Least.end());
            std::reverse(m_Most.begin(), m_Most.end());
        }
        return rises || falls;
    }

    double Hybrid(const uint64_t level, const double ground) const
    {
        const double b = m_Task.B ? m_Task.Sign * m_Task.B[level] : 0.0;
        return m_Task.Sign * m_Task.A[level] + b * ground;
    }

    /**
     * The coordinates of a level by its number below the top, if all columns go one way.
     * @param room where they may be put
     */
    const double *Row(uint64_t level, double *__restrict room) const
    {
        level = m_TileFalls ? m_Task.Interfaces - 1 - level : level;
        if (m_Task.Points)
        {
            return m_Coordinates.data() + level * Tile;
        }
        const double a = m_Task.Sign * m_Task.A[level];
        const double b = m_Task.B ? m_Task.Sign * m_Task.B[level] : 0.0;
        for (uint64_t at = 0; at < Tile; ++at)
        {
            room[at] = m_Task.B ? a + b * m_Ground[at] : a;
        }
        return room;
    }

    /** The level that is this many below the top. */
    uint64_t Below(const uint64_t at, const uint64_t level) const
    {
        return m_Falls[at] ? m_Task.Interfaces - 1 - level : level;
    }

    double Coordinate(const uint64_t at, const uint64_t level) const
    {
        return m_Coordinates[Below(at, level) * Tile + at];
    }

    double Value(const uint64_t at, const uint64_t level) const
    {
        return Raw(at, Below(at, level));
    }

    double Raw(const uint64_t at, const uint64_t level) const
    {
        const T value = m_Values[level * m_Task.After + at];
        return value == m_Fill ? Missing : double(value);
    }

    void Interpolate()
    {
        const bool one_way = OneWay();
        double ground = Infinite;
        for (uint64_t at = 0; one_way && m_Ground && at < m_Count; ++at)
        {
            const double own = m_Task.Sign * m_Ground[at];
            ground = own > -Infinite ? std::min(ground, own) : -Infinite;
        }
        for (uint64_t number = 0; number < m_Task.Targets; ++number)
        {
            const double target = m_Task.Sign * m_Task.To[number];
            T *row = m_Result + number * m_Task.After;
            const bool inside = one_way && target >= m_Most[0] && target <= ground &&
                                target < m_Least[m_Task.Interfaces - 1];
            if (inside)
            {
                Inside(target, row);
                continue;
            }
            MakeCoordinates();
            uint64_t hint = 0; // neighbours have a target between the same levels
            for (uint64_t at = 0; at < m_Count; ++at)
            {
                row[at] = T(m_Usable[at] ? At(at, target, hint) : Missing);
            }
        }
    }

    /** Whether all columns of a whole tile go one way; finds the limits of their levels then. */
    bool OneWay()
    {
        if (m_Count < Tile || m_Task.Interfaces < 2)
        {
            return false;
        }
        if (!m_Task.Points)
        {
            return LimitsOfHybrid();
        }
        m_TileFalls = m_AllFall;
        if (m_AllRise || m_AllFall)
        {
            Limits();
        }
        return m_AllRise || m_AllFall;
    }

    /** Interpolates where each column has levels on both sides: level by level, of which few are
     * needed. */
    void Inside(const double target, T *result) const
    {
        double made[Tile];
        std::fill_n(made, Tile, Missing);
        for (uint64_t level = 0; level + 1 < m_Task.Interfaces; ++level)
        {
            if (m_Least[level] <= target && target < m_Most[level + 1])
            {
                const bool whole = m_Most[level] <= target && target < m_Least[level + 1];
                m_Task.Log ? Within<true>(target, level, whole, made)
                           : Within<false>(target, level, whole, made);
            }
        }
        for (uint64_t at = 0; at < Tile; ++at)
        {
            result[at] = T(made[at]);
        }
    }

    template <bool Log>
    void Within(const double target, const uint64_t level, const bool whole,
                double *__restrict made) const
    {
        const T fill = m_Fill;
        double upper_row[Tile];
        double lower_row[Tile];
        const double *__restrict above = Row(level, upper_row);
        const double *__restrict below = Row(level + 1, lower_row);
        const T *__restrict upper =
            m_Values + (m_TileFalls ? m_Task.Levels - 1 - level : level) * m_Task.After;
        const T *__restrict lower = m_TileFalls ? upper - m_Task.After : upper + m_Task.After;
        for (uint64_t at = 0; at < Tile; ++at)
        {
            const double value = upper[at] == fill ? Missing : double(upper[at]);
            const double step = (lower[at] == fill ? Missing : double(lower[at])) - value;
            const double way = Log ? std::log(target / above[at]) : target - above[at];
            const double all = Log ? std::log(below[at] / above[at]) : below[at] - above[at];
            const double between = target == above[at] ? value : value + way * step / all;
            const bool here = whole || (above[at] <= target && target < below[at]);
            made[at] = here ? between : made[at];
        }
    }

    double At(const uint64_t at, const double target, uint64_t &hint) const
    {
        const uint64_t last = m_Task.Interfaces - 1;
        if (m_Ground && !(target <= m_Task.Sign * m_Ground[at]))
        {
            return m_Task.Lowest ? Value(at, last) : Missing;
        }
        if (target > Coordinate(at, last))
        {
            return m_Ground || m_Task.Lowest ? Value(at, last) : Missing;
        }
        if (target < Coordinate(at, 0))
        {
            return m_Task.Linear && last > 0 ? Between(at, target, 0) : Missing;
        }
        if (target == Coordinate(at, last))
        {
            return Value(at, last);
        }
        while (target < Coordinate(at, hint))
        {
            --hint;
        }
        while (target >= Coordinate(at, hint + 1))
        {
            ++hint;
        }
        return Between(at, target, hint);
    }

    double Between(const uint64_t at, const double target, const uint64_t level) const
    {
        const double above = Coordinate(at, level);
        const double value = Value(at, level);
        if (target == above)
        {
            return value;
        }
        const double below = Coordinate(at, level + 1);
        const double step = Value(at, level + 1) - value;
        if (m_Task.Log)
        {
            return value + std::log(target / above) * step / std::log(below / above);
        }
        return value + (target - above) * step / (below - above);
    }

    /** The integral over layers between interfaces, or the mean that they weigh. */
    void Integrate()
    {
        for (uint64_t at = 0; at < m_Count; ++at)
        {
            double sum = 0;
            double thickness = 0;
            for (uint64_t level = 0; level < m_Task.Levels; ++level)
            {
                const double *row = m_Coordinates.data() + level * Tile + at;
                const double value = Raw(at, level);
                const double layer = std::fabs(row[Tile] - row[0]);
                const bool valid = value == value;
                sum += valid ? value * layer : 0.0;
                thickness += valid ? layer : 0.0;
            }
            const bool is_mean = m_Task.Make == BBFLOW_LEVELS_MEAN;
            const double made = is_mean ? sum / thickness : sum;
            m_Result[at] = T(m_Usable[at] && thickness > 0 ? made : Missing);
        }
    }

    /** Second-order differences of unequal steps, of first order at both ends; NumPy's gradient has
     * the same. */
    void Derive()
    {
        const uint64_t last = m_Task.Levels - 1;
        for (uint64_t level = 0; level <= last; ++level)
        {
            T *result = m_Result + level * m_Task.After;
            for (uint64_t at = 0; at < m_Count; ++at)
            {
                const uint64_t low = level > 0 ? level - 1 : 0;
                const uint64_t high = std::min(level + 1, last);
                const double *row = m_Coordinates.data() + at;
                const double before = row[level * Tile] - row[low * Tile];
                const double after = row[high * Tile] - row[level * Tile];
                const double first = Raw(at, low);
                const double here = Raw(at, level);
                const double second = Raw(at, high);
                double made = (second - first) / (before + after);
                if (low < level && level < high)
                {
                    made = (before * before * second + (after * after - before * before) * here -
                            after * after * first) /
                           (before * after * (before + after));
                }
                result[at] = T(m_Usable[at] ? m_Task.Sign * made : Missing);
            }
        }
    }
};

template <class T>
inline void Make(const BbflowColumns &task)
{
    Columns<T> columns(task);
    for (uint64_t before = 0; before < task.Before; ++before)
    {
        for (uint64_t first = 0; first < task.After; first += Tile)
        {
            columns.Make(before, first);
        }
    }
}

BBFLOW_CLONES __attribute__((flatten)) void MakeFloats(const BbflowColumns &task)
{
    Make<float>(task);
}

BBFLOW_CLONES __attribute__((flatten)) void MakeDoubles(const BbflowColumns &task)
{
    Make<double>(task);
}

} // namespace

} // namespace bbflow

int bbflow_levels(const BbflowColumns *task)
{
    try
    {
        task->Double ? bbflow::MakeDoubles(*task) : bbflow::MakeFloats(*task);
    }
    catch (const std::bad_alloc &)
    {
        return 1;
    }
    return 0;
}
