#include "Transport.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace climate
{

namespace
{

/** How fast motions too small for the wind field mix, m2/s: least near the poles, most in the
 *  tropics, where it stands for the overturning that no storm there does. */
double Diffusivity(const double latitude)
{
    const double cosine = std::cos(latitude * RadiansPerDegree);
    return 0.25e6 + 2.2e6 * std::pow(cosine, 4);
}

/** Van Leer's harmonic mean of two differences: 0 at an extreme, never above twice the smaller. */
inline double Limited(const double before, const double after)
{
    const double product = before * after;
    return 2 * std::max(product, 0.0) / (product > 0 ? before + after : 1.0);
}

/** What a flow (m2/s) carries through an edge. The value upwind is taken half a cell ahead of its
 *  centre, less half of what passes during the sub-step.
 *  @param behind, ahead Courant number of a flow of 1 m2/s in the cell on either side, s/m2. */
inline double Carried(const double flow, const double valueBehind, const double slopeBehind,
                      const double behind, const double valueAhead, const double slopeAhead,
                      const double ahead)
{
    const double forwards = valueBehind + 0.5 * (1 - flow * behind) * slopeBehind;
    const double backwards = valueAhead - 0.5 * (1 + flow * ahead) * slopeAhead;
    return flow * (flow > 0 ? forwards : backwards);
}

void MeridionalSlopes(const Field &field, const std::ptrdiff_t row, std::vector<double> &slopes)
{
    const double *south = field.Row(row - 1);
    const double *here = field.Row(row);
    const double *north = field.Row(row + 1);
    for (size_t i = 0; i < slopes.size(); ++i)
    {
        slopes[i] = Limited(here[i] - south[i], north[i] - here[i]);
    }
}

/** Solves (1 + 2 r) x[i] - r (x[i-1] + x[i+1]) = b[i] on a circle, for two right-hand sides.
 *
 *  The matrix is the product of two one-sided recursions x[i] = b[i] + ratio x[i-1], one eastwards
 *  and one westwards, and a scale. Two at a time hide the latency of the recursion. */
class RowMixer
{
public:
    RowMixer(const double r, const size_t columns) : m_Columns(columns)
    {
        const double root = 1 + 2 * r + std::sqrt(1 + 4 * r);
        m_Scale = 2 / root;
        m_Ratio = 2 * r / root;
        m_Closing = 1 / (1 - std::pow(m_Ratio, static_cast<double>(columns)));
        // Values further away than this no longer show in a double.
        const double reach = m_Ratio > 0 ? std::log(1e-18) / std::log(m_Ratio) : 0;
        m_Reach = reach < static_cast<double>(columns) ? static_cast<size_t>(reach) + 1 : columns;
    }

    void Solve(double *first, double *second) const
    {
        double a = 0;
        double b = 0;
        for (size_t i = m_Columns - m_Reach; i < m_Columns; ++i)
        {
            a = first[i] + m_Ratio * a;
            b = second[i] + m_Ratio * b;
        }
        a *= m_Closing;
        b *= m_Closing;
        for (size_t i = 0; i < m_Columns; ++i)
        {
            first[i] = a = first[i] + m_Ratio * a;
            second[i] = b = second[i] + m_Ratio * b;
        }
        a = b = 0;
        for (size_t i = m_Reach; i-- > 0;)
        {
            a = first[i] + m_Ratio * a;
            b = second[i] + m_Ratio * b;
        }
        a *= m_Closing;
        b *= m_Closing;
        for (size_t i = m_Columns; i-- > 0;)
        {
            a = first[i] + m_Ratio * a;
            b = second[i] + m_Ratio * b;
            first[i] = m_Scale * a;
            second[i] = m_Scale * b;
        }
    }

private:
    size_t m_Columns;
    size_t m_Reach;
    double m_Ratio;
    double m_Scale;
    double m_Closing;
};

} // namespace

Transport::Transport(const Grid &grid, Bands &bands)
: m_Grid(grid), m_Bands(bands), m_Next(bands.Count(), grid.Columns()),
  m_ZonalSlopes(grid.Columns() + 1), m_SouthSlopes(grid.Columns()), m_NorthSlopes(grid.Columns()),
  m_ZonalFlow(grid.Columns() + 1), m_SouthFlow(grid.Columns()), m_NorthFlow(grid.Columns())
{
}

size_t Transport::Advance(Field &first, Field &second, const Wind &wind, const double seconds)
{
    // The largest of all ranks: the sub-steps must not depend on how the rows are shared out.
    const double rate = m_Bands.Max(LargestRate(wind));
    const auto subSteps = static_cast<size_t>(std::ceil(std::max(1.0, rate * seconds * 1.001)));
    const double subStep = seconds / static_cast<double>(subSteps);
    for (size_t i = 0; i < subSteps; ++i)
    {
        m_Bands.Exchange({&first, &second});
        Advect(first, wind, subStep);
        Advect(second, wind, subStep);
        MixRows(first, second, subStep);
    }
    return subSteps;
}

double Transport::LargestRate(const Wind &wind) const
{
    double largest = 0;
    for (size_t row = 0; row < m_Bands.Count(); ++row)
    {
        const size_t number = m_Bands.Start() + row;
        const double *east = wind.East(row);
        const double *south = wind.North(row);
        const double *north = wind.North(row + 1);
        double flow = 0;
        for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(m_Grid.Columns()); ++i)
        {
            flow = std::max(flow, std::abs(east[i]) + std::abs(east[i - 1]) + std::abs(south[i]) +
                                      std::abs(north[i]));
        }
        const double exchange = Exchange(number) + Exchange(number + 1);
        largest = std::max(largest, (flow + exchange) / m_Grid.Area(number));
    }
    return largest;
}

double Transport::Exchange(const size_t edge) const
{
    return Diffusivity(m_Grid.EdgeLatitude(edge)) * m_Grid.EdgeLength(edge) / m_Grid.RowHeight();
}

void Transport::Advect(Field &field, const Wind &wind, const double seconds)
{
    MeridionalSlopes(field, -1, m_SouthSlopes);
    MeridionalSlopes(field, 0, m_NorthSlopes);
    FlowThroughEdge(field, wind, 0, seconds);
    for (size_t row = 0; row < m_Bands.Count(); ++row)
    {
        std::swap(m_SouthFlow, m_NorthFlow);
        std::swap(m_SouthSlopes, m_NorthSlopes);
        MeridionalSlopes(field, static_cast<std::ptrdiff_t>(row) + 1, m_NorthSlopes);
        FlowThroughEdge(field, wind, row + 1, seconds);
        FlowThroughRow(field, wind, row, seconds);

        const double share = seconds / m_Grid.Area(m_Bands.Start() + row);
        const double *before = field.Row(static_cast<std::ptrdiff_t>(row));
        double *after = m_Next.Row(static_cast<std::ptrdiff_t>(row));
        for (size_t i = 0; i < m_Grid.Columns(); ++i)
        {
            after[i] = before[i] - share * ((m_ZonalFlow[i + 1] - m_ZonalFlow[i]) +
                                            (m_NorthFlow[i] - m_SouthFlow[i]));
        }
    }
    std::swap(field, m_Next);
}

void Transport::FlowThroughRow(const Field &field, const Wind &wind, const size_t row,
                               const double seconds)
{
    const double *values = field.Row(static_cast<std::ptrdiff_t>(row));
    const double *east = wind.East(row);
    const double courant = seconds / m_Grid.Area(m_Bands.Start() + row);
    const auto columns = static_cast<std::ptrdiff_t>(m_Grid.Columns());
    double *slopes = m_ZonalSlopes.data() + 1;
    for (std::ptrdiff_t i = -1; i < columns; ++i)
    {
        slopes[i] = Limited(values[i] - values[i - 1], values[i + 1] - values[i]);
    }
    double *flow = m_ZonalFlow.data() + 1;
    for (std::ptrdiff_t i = 0; i < columns - 1; ++i)
    {
        flow[i] =
            Carried(east[i], values[i], slopes[i], courant, values[i + 1], slopes[i + 1], courant);
    }
    flow[columns - 1] = Carried(east[columns - 1], values[columns - 1], slopes[columns - 1],
                                courant, values[columns], slopes[0], courant);
    flow[-1] = flow[columns - 1];
}

void Transport::FlowThroughEdge(const Field &field, const Wind &wind, const size_t edge,
                                const double seconds)
{
    const size_t number = m_Bands.Start() + edge;
    const double *south = field.Row(static_cast<std::ptrdiff_t>(edge) - 1);
    const double *north = field.Row(static_cast<std::ptrdiff_t>(edge));
    const double *flow = wind.North(edge);
    // At a pole there is one row only, and no flow: any area does for the side beyond.
    const double behind = seconds / m_Grid.Area(number > 0 ? number - 1 : 0);
    const double ahead = seconds / m_Grid.Area(std::min(number, m_Grid.Rows() - 1));
    const double exchange = Exchange(number);
    for (size_t i = 0; i < m_Grid.Columns(); ++i)
    {
        m_NorthFlow[i] = Carried(flow[i], south[i], m_SouthSlopes[i], behind, north[i],
                                 m_NorthSlopes[i], ahead) -
                         exchange * (north[i] - south[i]);
    }
}

void Transport::MixRows(Field &first, Field &second, const double seconds) const
{
    for (size_t row = 0; row < m_Bands.Count(); ++row)
    {
        const size_t number = m_Bands.Start() + row;
        const double exchange =
            Diffusivity(m_Grid.Latitude(number)) * m_Grid.RowHeight() / m_Grid.CellWidth(number);
        const double r = exchange * seconds / m_Grid.Area(number);
        const RowMixer mixer(r, m_Grid.Columns());
        mixer.Solve(first.Row(static_cast<std::ptrdiff_t>(row)),
                    second.Row(static_cast<std::ptrdiff_t>(row)));
    }
}

} // end namespace climate
