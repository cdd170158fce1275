#include "Model.h"

namespace climate
{

namespace
{

constexpr double SecondsPerDay = 86400;

} // namespace

Model::Model(const Options &options, Bands &bands)
: m_Options(options), m_Bands(bands), m_Grid(options.Latitudes, options.Longitudes),
  m_Planet(m_Grid, bands.Start(), bands.Count(), options.Physics),
  m_Wind(m_Grid, bands, options.Seed), m_Transport(m_Grid, bands),
  m_Physics(m_Grid, bands, m_Planet, options.Seed),
  m_Diagnostics(m_Grid, bands, m_Planet, options.Levels),
  m_State(m_Physics.Start(YearFraction(options.Calendar, 0)))
{
}

size_t Model::Advance(const size_t step)
{
    const auto perDay = static_cast<double>(m_Options.StepsPerDay);
    const double seconds = SecondsPerDay / perDay;
    m_Wind.Advance(step, 1 / perDay);
    const size_t subSteps = m_Transport.Advance(m_State.Air, m_State.Moisture, m_Wind, seconds);
    if (m_Options.Physics)
    {
        const double days = static_cast<double>(step) / perDay;
        m_Physics.Advance(m_State, step, seconds, YearFraction(m_Options.Calendar, days));
    }
    m_Diagnostics.Evaluate(m_State, m_Wind);
    return subSteps;
}

Totals Model::Total() const
{
    Totals totals{0, 0};
    for (size_t row = 0; row < m_Bands.Count(); ++row)
    {
        const double area = m_Grid.Area(m_Bands.Start() + row);
        const double *air = m_State.Air.Row(static_cast<std::ptrdiff_t>(row));
        const double *moisture = m_State.Moisture.Row(static_cast<std::ptrdiff_t>(row));
        for (size_t i = 0; i < m_Grid.Columns(); ++i)
        {
            totals.Heat += area * air[i];
            totals.Moisture += area * moisture[i];
        }
    }
    return {m_Bands.Sum(totals.Heat), m_Bands.Sum(totals.Moisture)};
}

} // end namespace climate
