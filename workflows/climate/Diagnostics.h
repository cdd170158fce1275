#pragma once

#include "Bands.h"
#include "Grid.h"
#include "Physics.h"
#include "Planet.h"
#include "Wind.h"

#include <cstddef>
#include <vector>

namespace climate
{

constexpr float FillValue = 1e20F;

/** The fields of a step as they are written: the band's rows, in single precision. */
class Diagnostics
{
public:
    Diagnostics(const Grid &grid, const Bands &bands, const Planet &planet, size_t levels);

    void Evaluate(const State &state, const Wind &wind);

    /** Pressures of the levels, Pa, from the ground up. */
    const std::vector<double> &Pressures() const { return m_Pressures; }

    const std::vector<float> &AirTemperature() const { return m_Tas; }   ///< K, (lat, lon)
    const std::vector<float> &Rain() const { return m_Pr; }              ///< kg m-2 s-1
    const std::vector<float> &SeaLevelPressure() const { return m_Psl; } ///< Pa
    const std::vector<float> &LevelTemperature() const { return m_Ta; }  ///< K, (plev, lat, lon)

private:
    const Grid &m_Grid;
    const Planet &m_Planet;
    size_t m_FirstRow;
    size_t m_Rows;
    std::vector<double> m_Pressures;
    std::vector<double> m_Storms; ///< Stream function at the centres of a row's cells, m2/s.
    std::vector<double> m_SeaLevelPressure;
    std::vector<float> m_Tas;
    std::vector<float> m_Pr;
    std::vector<float> m_Psl;
    std::vector<float> m_Ta;

    void StormsAtCentres(const Wind &wind, size_t row);
    void EvaluateSurface(const State &state, size_t row);
    void EvaluateLevels(const State &state, size_t row);
};

} // end namespace climate
