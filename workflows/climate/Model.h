#pragma once

#include "Bands.h"
#include "Diagnostics.h"
#include "Grid.h"
#include "Options.h"
#include "Physics.h"
#include "Planet.h"
#include "Transport.h"
#include "Wind.h"

#include <cstddef>

namespace climate
{

/** Totals over the sphere of what transport must conserve. */
struct Totals
{
    double Heat;     ///< K m2
    double Moisture; ///< kg/kg m2
};

/** The simulation of one rank: its state and what moves it on. */
class Model
{
public:
    Model(const Options &options, Bands &bands);

    /** Moves on to a step and evaluates its fields. @return the number of transport's sub-steps. */
    size_t Advance(size_t step);

    Totals Total() const;

    const Grid &Sphere() const { return m_Grid; }
    const Diagnostics &Fields() const { return m_Diagnostics; }

private:
    const Options &m_Options;
    Bands &m_Bands;
    Grid m_Grid;
    Planet m_Planet;
    Wind m_Wind;
    Transport m_Transport;
    Physics m_Physics;
    Diagnostics m_Diagnostics;
    State m_State;
};

} // end namespace climate
