#pragma once

#include "Bands.h"
#include "Field.h"
#include "Grid.h"
#include "Planet.h"
#include "Waves.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace climate
{

/** Temperatures in degrees Celsius, reduced to sea level, and specific humidity of a band. */
struct State
{
    Field Air;                   ///< Temperature of the air, C.
    Field Moisture;              ///< Specific humidity, kg/kg.
    std::vector<double> Surface; ///< Temperature of the ground or the sea's upper layer, C.
    std::vector<double> Rain;    ///< kg m-2 s-1, mean of the last step.
};

/** What happens in each column by itself: sun, radiation to space, exchange with the surface,
 *  evaporation and rain.
 *
 *  The energy balance is Budyko's (1969) with the coefficients of North, Cahalan and Coakley
 *  (1981), for a layer of air above a surface of its own heat capacity. */
class Physics
{
public:
    Physics(const Grid &grid, const Bands &bands, const Planet &planet, uint64_t seed);

    /** A state near the model's own climate at a fraction of the year. */
    State Start(double yearFraction) const;

    /** Moves on to a step; implicit, so it is stable for steps of any length. */
    void Advance(State &state, uint64_t step, double seconds, double yearFraction);

private:
    const Grid &m_Grid;
    const Planet &m_Planet;
    size_t m_FirstRow;
    size_t m_Rows;
    Waves m_Showers;
    std::vector<double> m_RowOfShowers;

    void ExchangeHeat(State &state, size_t row, double seconds, double sunlight) const;
    void ExchangeWater(State &state, size_t row, double seconds, double ascent);
};

/** Daily mean sunlight above the atmosphere at a latitude (degrees north), W/m2. */
double Sunlight(double latitude, double yearFraction);

} // end namespace climate
