#include "Diagnostics.h"

#include <algorithm>
#include <cmath>

namespace climate
{

namespace
{

constexpr double Freezing = 273.15;       // K
constexpr double Lapse = 0.0065;          // K/m, of the standard atmosphere
constexpr double LapseExponent = 0.1903;  // gas constant x lapse rate / gravity
constexpr double MeanPressure = 101325;   // Pa
constexpr double AirDensity = 1.2;        // kg/m3
constexpr double RotationRate = 7.292e-5; // 1/s
constexpr double ThermalPressure = -45;   // Pa/K, lows over warm ground
constexpr double TiltedWarmth = 3.5e-7;   // K per m2/s of the storms' stream function

/** Zonal mean pressure: the subtropical highs and the lows towards the poles. */
double BeltPressure(const double latitude)
{
    const double distance = std::abs(latitude);
    return MeanPressure - 300 + 900 * std::exp(-std::pow((distance - 32) / 14, 2)) -
           1300 * std::exp(-std::pow((distance - 63) / 13, 2));
}

double StratosphereTemperature(const double latitude)
{
    const double s = std::sin(latitude * RadiansPerDegree);
    return 198 + 20 * s * s;
}

std::vector<double> EvenPressures(const size_t levels)
{
    constexpr double lowest = 100000;
    constexpr double highest = 10000;
    std::vector<double> pressures;
    for (size_t level = 0; level < levels; ++level)
    {
        const double part =
            static_cast<double>(level) / static_cast<double>(std::max<size_t>(levels - 1, 1));
        pressures.push_back(lowest + part * (highest - lowest));
    }
    return pressures;
}

double SurfacePressure(const double seaLevel, const double height, const double kelvin)
{
    return height > 0 ? seaLevel * std::pow(1 - Lapse * height / kelvin, 1 / LapseExponent)
                      : seaLevel;
}

} // namespace

Diagnostics::Diagnostics(const Grid &grid, const Bands &bands, const Planet &planet,
                         const size_t levels)
: m_Grid(grid), m_Planet(planet), m_FirstRow(bands.Start()), m_Rows(bands.Count()),
  m_Pressures(EvenPressures(levels)), m_Storms(grid.Columns()), m_SeaLevelPressure(grid.Columns()),
  m_Tas(m_Rows * grid.Columns()), m_Pr(m_Rows * grid.Columns()), m_Psl(m_Rows * grid.Columns()),
  m_Ta(levels * m_Rows * grid.Columns())
{
}

void Diagnostics::Evaluate(const State &state, const Wind &wind)
{
    for (size_t row = 0; row < m_Rows; ++row)
    {
        StormsAtCentres(wind, row);
        EvaluateSurface(state, row);
        EvaluateLevels(state, row);
    }
}

void Diagnostics::StormsAtCentres(const Wind &wind, const size_t row)
{
    const double *south = wind.Storms(row);
    const double *north = wind.Storms(row + 1);
    for (size_t i = 0; i < m_Grid.Columns(); ++i)
    {
        const size_t west = (i + m_Grid.Columns() - 1) % m_Grid.Columns();
        m_Storms[i] = 0.25 * (south[west] + south[i] + north[west] + north[i]);
    }
}

void Diagnostics::EvaluateSurface(const State &state, const size_t row)
{
    const size_t columns = m_Grid.Columns();
    const double latitude = m_Grid.Latitude(m_FirstRow + row);
    const double *air = state.Air.Row(static_cast<std::ptrdiff_t>(row));
    const double *height = m_Planet.Height(row);
    double sum = 0;
    for (size_t i = 0; i < columns; ++i)
    {
        sum += air[i];
    }
    const double mean = sum / static_cast<double>(columns);
    const double belt = BeltPressure(latitude);
    // Winds of storms are geostrophic: density x Coriolis parameter x stream function.
    const double geostrophic =
        AirDensity * 2 * RotationRate * std::sin(latitude * RadiansPerDegree);
    for (size_t i = 0; i < columns; ++i)
    {
        const size_t at = row * columns + i;
        m_SeaLevelPressure[i] =
            belt + ThermalPressure * (air[i] - mean) + geostrophic * m_Storms[i];
        m_Psl[at] = static_cast<float>(m_SeaLevelPressure[i]);
        m_Tas[at] = static_cast<float>(Freezing + air[i] - Lapse * height[i]);
        m_Pr[at] = static_cast<float>(state.Rain[at]);
    }
}

void Diagnostics::EvaluateLevels(const State &state, const size_t row)
{
    const size_t columns = m_Grid.Columns();
    const double latitude = m_Grid.Latitude(m_FirstRow + row);
    const double stratosphere = StratosphereTemperature(latitude);
    // Geostrophic highs are warm aloft, so the sign follows the hemisphere.
    const double warmth = TiltedWarmth * std::sin(latitude * RadiansPerDegree);
    const double *air = state.Air.Row(static_cast<std::ptrdiff_t>(row));
    const double *height = m_Planet.Height(row);
    std::vector<double> surface(columns);
    for (size_t i = 0; i < columns; ++i)
    {
        surface[i] = SurfacePressure(m_SeaLevelPressure[i], height[i], Freezing + air[i]);
    }
    for (size_t level = 0; level < m_Pressures.size(); ++level)
    {
        const double pressure = m_Pressures[level];
        const double cooling = std::pow(pressure / MeanPressure, LapseExponent);
        const double storminess = warmth * std::sin(Pi * std::min(1.0, pressure / MeanPressure));
        float *ta = m_Ta.data() + (level * m_Rows + row) * columns;
        for (size_t i = 0; i < columns; ++i)
        {
            const double troposphere = (Freezing + air[i]) * cooling;
            const double kelvin = std::max(troposphere, stratosphere) + storminess * m_Storms[i];
            ta[i] = pressure > surface[i] ? FillValue : static_cast<float>(kelvin);
        }
    }
}

} // end namespace climate
