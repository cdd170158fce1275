#include "Physics.h"

#include <algorithm>
#include <cmath>

namespace climate
{

namespace
{

constexpr Spectrum ShowerSpectrum{2, 20, 10, 9, 0.6, -4};

constexpr double SolarConstant = 1361;  // W/m2
constexpr double Emission = 203.3;      // W/m2 to space at 0 C
constexpr double EmissionSlope = 2.09;  // W/m2/K
constexpr double AbsorbedInAir = 0.45;  // of the sunlight that isn't reflected
constexpr double SurfaceExchange = 25;  // W/m2/K
constexpr double AirCapacity = 1.0e7;   // J/m2/K, the whole column
constexpr double LandCapacity = 4.0e6;  // J/m2/K, two metres of soil
constexpr double SeaCapacity = 2.0e8;   // J/m2/K, fifty metres of water
constexpr double IceCapacity = 0.7e7;   // J/m2/K, what is in touch with the air through sea ice
constexpr double MoistColumn = 2500;    // kg/m2 of air that the moisture is spread over
constexpr double Evaporation = 0.0055;  // kg/m2/s per kg/kg: density x transfer x wind speed
constexpr double LandWetness = 0.45;    // evaporation of land, relative to the sea's
constexpr double RainTime = 4 * 3600.0; // s, in which a column gives up what is too much
constexpr double SnowLapse = 0.0045;    // K/m: clouds that rain on mountains are part-way up
constexpr double WinterSolstice = -10 / 365.0; // fraction of the year

double Declination(const double yearFraction)
{
    return -23.44 * RadiansPerDegree * std::cos(2 * Pi * (yearFraction - WinterSolstice));
}

/** Bolton (1980), eq. 10, at 1000 hPa. */
double Saturation(const double celsius)
{
    const double hectopascals = 6.112 * std::exp(17.67 * celsius / (celsius + 243.5));
    return 0.622 * hectopascals / 1000;
}

/** Part of the sunlight that is reflected: more where the sun stands low, and on snow and ice. */
double Albedo(const double latitude, const double surface)
{
    const double s = std::sin(latitude * RadiansPerDegree);
    const double bare = 0.315 + 0.08 * (3 * s * s - 1);
    const double frozen = std::clamp((2 - surface) / 12, 0.0, 1.0);
    return bare + (0.64 - bare) * frozen;
}

double SeaSurfaceCapacity(const double surface)
{
    const double frozen = std::clamp((-1 - surface) / 2, 0.0, 1.0);
    return SeaCapacity + (IceCapacity - SeaCapacity) * frozen;
}

/** Large-scale ascent, without unit: air rises in a belt that follows the sun half-way and sinks on
 *  both sides of it; beyond, the storms do the lifting. */
double Ascent(const double latitude, const double yearFraction)
{
    // The belt lags the sun by a month and a half.
    const double centre = 0.4 * Declination(yearFraction - 0.12) / RadiansPerDegree + 2;
    const auto bump = [&](const double at, const double width)
    {
        const double off = (latitude - centre - at) / width;
        return std::exp(-off * off);
    };
    const double track = std::exp(-std::pow((std::abs(latitude) - 52) / 16, 2));
    return 1.9 * bump(0, 9) - 1.2 * (bump(-24, 11) + bump(24, 11)) + 0.8 * track;
}

/** The air's annual mean at sea level and its swing through the year, C: a fit to the model's own
 *  tenth year. Land and sea differ in the size and the lag of the swing. */
double StartTemperature(const double latitude, const double yearFraction, const bool sea)
{
    const double s = std::sin(latitude * RadiansPerDegree);
    const double polar = std::pow(s, 8);
    const double mean = 29.5 - 42 * s * s - 4 * polar;
    const double swing = sea ? s * (6.5 + 7 * polar) : s * (16 + 4 * polar);
    const double lag = sea ? 0.175 : 0.105;
    return mean - swing * std::cos(2 * Pi * (yearFraction - WinterSolstice - lag));
}

/** How much warmer than the air the surface is in the annual mean, K. */
double SurfaceExcess(const double latitude)
{
    const double s = std::sin(latitude * RadiansPerDegree);
    return 6.3 - 5.5 * s * s;
}

std::vector<double> Longitudes(const Grid &grid)
{
    std::vector<double> longitudes;
    for (size_t column = 0; column < grid.Columns(); ++column)
    {
        longitudes.push_back(grid.Longitude(column));
    }
    return longitudes;
}

} // namespace

double Sunlight(const double latitude, const double yearFraction)
{
    const double declination = Declination(yearFraction);
    const double phi = latitude * RadiansPerDegree;
    const double cosine = std::clamp(-std::tan(phi) * std::tan(declination), -1.0, 1.0);
    const double sunset = std::acos(cosine);
    return SolarConstant / Pi *
           (sunset * std::sin(phi) * std::sin(declination) +
            std::cos(phi) * std::cos(declination) * std::sin(sunset));
}

Physics::Physics(const Grid &grid, const Bands &bands, const Planet &planet, const uint64_t seed)
: m_Grid(grid), m_Planet(planet), m_FirstRow(bands.Start()), m_Rows(bands.Count()),
  m_Showers(ShowerSpectrum, seed, Longitudes(grid)), m_RowOfShowers(grid.Columns())
{
}

State Physics::Start(const double yearFraction) const
{
    const size_t columns = m_Grid.Columns();
    State state{Field(m_Rows, columns), Field(m_Rows, columns),
                std::vector<double>(m_Rows * columns), std::vector<double>(m_Rows * columns)};
    std::vector<double> patches(columns);
    for (size_t row = 0; row < m_Rows; ++row)
    {
        const double latitude = m_Grid.Latitude(m_FirstRow + row);
        const double overSea = StartTemperature(latitude, yearFraction, true);
        const double overLand = StartTemperature(latitude, yearFraction, false);
        const double excess = SurfaceExcess(latitude);
        const double cosine = std::cos(latitude * RadiansPerDegree);
        m_Showers.Evaluate(latitude, patches.data());
        double *air = state.Air.Row(static_cast<std::ptrdiff_t>(row));
        double *moisture = state.Moisture.Row(static_cast<std::ptrdiff_t>(row));
        for (size_t i = 0; i < columns; ++i)
        {
            const double land = m_Planet.Land(row)[i];
            const double mean = overSea + land * (overLand - overSea);
            state.Surface[row * columns + i] = mean + excess;
            air[i] = mean + cosine * patches[i];
            moisture[i] = (0.72 + 0.04 * patches[i] * cosine) * Saturation(air[i]);
        }
    }
    return state;
}

void Physics::Advance(State &state, const uint64_t step, const double seconds,
                      const double yearFraction)
{
    m_Showers.Advance(step, seconds / 86400);
    for (size_t row = 0; row < m_Rows; ++row)
    {
        const double latitude = m_Grid.Latitude(m_FirstRow + row);
        ExchangeHeat(state, row, seconds, Sunlight(latitude, yearFraction));
        m_Showers.Evaluate(latitude, m_RowOfShowers.data());
        ExchangeWater(state, row, seconds, Ascent(latitude, yearFraction));
    }
}

void Physics::ExchangeHeat(State &state, const size_t row, const double seconds,
                           const double sunlight) const
{
    const double latitude = m_Grid.Latitude(m_FirstRow + row);
    double *air = state.Air.Row(static_cast<std::ptrdiff_t>(row));
    double *surface = state.Surface.data() + row * m_Grid.Columns();
    const double *land = m_Planet.Land(row);
    for (size_t i = 0; i < m_Grid.Columns(); ++i)
    {
        const double sea = SeaSurfaceCapacity(surface[i]);
        const double below = (sea + land[i] * (LandCapacity - sea)) / seconds;
        const double above = AirCapacity / seconds;
        const double absorbed = sunlight * (1 - Albedo(latitude, surface[i]));
        // Backward Euler for both layers; the surface's equation is put into the air's.
        const double store = below * surface[i] + (1 - AbsorbedInAir) * absorbed;
        const double share = SurfaceExchange / (below + SurfaceExchange);
        air[i] = (above * air[i] + AbsorbedInAir * absorbed - Emission + share * store) /
                 (above + EmissionSlope + share * below);
        surface[i] = (store + SurfaceExchange * air[i]) / (below + SurfaceExchange);
    }
}

void Physics::ExchangeWater(State &state, const size_t row, const double seconds,
                            const double ascent)
{
    const double *air = state.Air.Row(static_cast<std::ptrdiff_t>(row));
    const double *land = m_Planet.Land(row);
    const double *height = m_Planet.Height(row);
    double *moisture = state.Moisture.Row(static_cast<std::ptrdiff_t>(row));
    const double *surface = state.Surface.data() + row * m_Grid.Columns();
    double *rain = state.Rain.data() + row * m_Grid.Columns();
    const double released = 1 - std::exp(-seconds / RainTime);
    for (size_t i = 0; i < m_Grid.Columns(); ++i)
    {
        const double wetness = 1 - land[i] * (1 - LandWetness);
        const double gain = seconds * wetness * Evaporation / MoistColumn;
        const double wettest = std::max(moisture[i], Saturation(surface[i]));
        const double filled = (moisture[i] + gain * wettest) / (1 + gain);
        // Rising air cools, so it rains before the air near the ground is saturated.
        const double threshold = std::clamp(0.90 - 0.10 * (ascent + m_RowOfShowers[i]), 0.40, 1.05);
        const double held = threshold * Saturation(air[i] - SnowLapse * height[i]);
        const double fallen = released * std::max(0.0, filled - held);
        moisture[i] = filled - fallen;
        rain[i] = fallen * MoistColumn / seconds;
    }
}

} // end namespace climate
