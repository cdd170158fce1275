#include "Wind.h"

#include <algorithm>

namespace climate
{

namespace
{

constexpr Spectrum StormSpectrum{1, 8, 4, 4.5, 4.0, 7.0};

constexpr double StormStrength = 8e6; // m2/s
constexpr double TradeWind = -5;      // m/s, at the equator
constexpr double Westerlies = 21;     // m/s, on top of the trade wind's profile at 45 degrees

/** Stream function of u = cos(lat) (TradeWind + Westerlies sin2(2 lat)), m2/s. */
double MeanFlow(const double latitude)
{
    const double s = std::sin(latitude * RadiansPerDegree);
    const double s3 = s * s * s;
    return -EarthRadius * (TradeWind * s + 4 * Westerlies * (s3 / 3 - s3 * s * s / 5));
}

/** Where storms are strong. It falls with cos2 towards the poles: just fast enough that the flow
 *  through the narrowing cells, in cells per second, stays bounded. */
double StormTrack(const double latitude)
{
    const double s = std::sin(latitude * RadiansPerDegree);
    return (1 - s * s) * (0.12 + 2.2 * s * s);
}

std::vector<double> EdgeLongitudes(const Grid &grid)
{
    std::vector<double> longitudes;
    for (size_t column = 0; column < grid.Columns(); ++column)
    {
        longitudes.push_back(grid.EdgeLongitude(column));
    }
    return longitudes;
}

} // namespace

Wind::Wind(const Grid &grid, const Bands &bands, const uint64_t seed)
: m_Grid(grid), m_FirstRow(bands.Start()), m_Rows(bands.Count()), m_Columns(grid.Columns()),
  m_Waves(StormSpectrum, seed, EdgeLongitudes(grid)), m_Storms((m_Rows + 1) * m_Columns),
  m_East(m_Rows * (m_Columns + 1)), m_North((m_Rows + 1) * m_Columns)
{
    EvaluateStorms();
    Differentiate();
}

void Wind::Advance(const uint64_t step, const double days)
{
    m_Waves.Advance(step, days);
    EvaluateStorms();
    Differentiate();
}

void Wind::EvaluateStorms()
{
    for (size_t edge = 0; edge <= m_Rows; ++edge)
    {
        const size_t number = m_FirstRow + edge;
        const double latitude = m_Grid.EdgeLatitude(number);
        // A pole is one point: a stream function has one value there.
        const bool pole = number == 0 || number == m_Grid.Rows();
        const double strength = pole ? 0 : StormStrength * StormTrack(latitude);
        double *storms = m_Storms.data() + edge * m_Columns;
        m_Waves.Evaluate(latitude, storms);
        std::transform(storms, storms + m_Columns, storms,
                       [strength](const double value) { return strength * value; });
    }
}

void Wind::Differentiate()
{
    for (size_t edge = 0; edge <= m_Rows; ++edge)
    {
        const double *storms = Storms(edge);
        double *north = m_North.data() + edge * m_Columns;
        north[0] = storms[0] - storms[m_Columns - 1];
        for (size_t i = 1; i < m_Columns; ++i)
        {
            north[i] = storms[i] - storms[i - 1];
        }
    }
    for (size_t row = 0; row < m_Rows; ++row)
    {
        const double mean = MeanFlow(m_Grid.EdgeLatitude(m_FirstRow + row)) -
                            MeanFlow(m_Grid.EdgeLatitude(m_FirstRow + row + 1));
        const double *south = Storms(row);
        const double *north = Storms(row + 1);
        double *east = m_East.data() + row * (m_Columns + 1) + 1;
        for (size_t i = 0; i < m_Columns; ++i)
        {
            east[i] = mean + (south[i] - north[i]);
        }
        east[-1] = east[m_Columns - 1];
    }
}

} // end namespace climate
