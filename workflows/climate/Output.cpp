#include "Output.h"

#include <chrono>
#include <csignal>

namespace climate
{

namespace
{

/** '{rank}' in a name becomes the rank. */
std::string NameFor(std::string name, const int rank)
{
    const std::string placeholder = "{rank}";
    for (size_t at = 0; (at = name.find(placeholder, at)) != std::string::npos;)
    {
        name.replace(at, placeholder.size(), std::to_string(rank));
    }
    return name;
}

} // namespace

Output::Output(const Options &options, const Bands &bands, const Grid &grid,
               const Diagnostics &fields)
: m_Options(options), m_Bands(bands), m_Fields(fields), m_Adios(options.Config),
  m_IO(m_Adios.DeclareIO("climate"))
{
    m_IO.DefineAttribute<std::string>("Conventions", "CF-1.11");
    m_IO.DefineAttribute<std::string>("title", "Temperature and moisture on the sphere");
    m_IO.DefineAttribute<std::string>("source", "climate: advection and diffusion on " +
                                                    std::to_string(grid.Rows()) + " x " +
                                                    std::to_string(grid.Columns()) +
                                                    " cells, seed " + std::to_string(options.Seed));
    DefineCoordinates(grid);
    DefineFields(grid);
    m_Engine = m_IO.Open(NameFor(options.Output, bands.Rank()), adios2::Mode::Write);
}

double Output::Write(const size_t step)
{
    const auto before = std::chrono::steady_clock::now();
    m_Engine.BeginStep();
    if (step == 0)
    {
        PutCoordinates();
    }
    PutFields(step);
    if (step == m_Options.DieAtStep)
    {
        std::raise(SIGKILL);
    }
    m_Engine.EndStep();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

void Output::DefineCoordinates(const Grid &grid)
{
    for (size_t row = 0; row < m_Bands.Count(); ++row)
    {
        m_Latitudes.push_back(grid.Latitude(m_Bands.Start() + row));
    }
    for (size_t column = 0; column < grid.Columns(); ++column)
    {
        m_Longitudes.push_back(grid.Longitude(column));
    }
    const size_t levels = m_Fields.Pressures().size();
    m_Lat = Define<double>("lat", {grid.Rows()}, {m_Bands.Start()}, {m_Bands.Count()}, {"lat"});
    m_Lon = Define<double>("lon", {grid.Columns()}, {0}, {grid.Columns()}, {"lon"});
    m_Plev = Define<double>("plev", {levels}, {0}, {levels}, {"plev"});
    m_Time = m_IO.DefineVariable<double>("time");

    const auto axis = [this](const std::string &name, const std::string &letter,
                             const std::string &units, const std::string &standardName)
    {
        Describe(name, "axis", letter);
        Describe(name, "units", units);
        Describe(name, "standard_name", standardName);
        Describe(name, "long_name", standardName);
    };
    axis("lat", "Y", "degrees_north", "latitude");
    axis("lon", "X", "degrees_east", "longitude");
    axis("plev", "Z", "Pa", "air_pressure");
    Describe("plev", "positive", "down");
    axis("time", "T", "days since 2000-01-01 00:00:00", "time");
    Describe("time", "calendar", NameOf(m_Options.Calendar));
}

void Output::DefineFields(const Grid &grid)
{
    const adios2::Dims shape{grid.Rows(), grid.Columns()};
    const adios2::Dims start{m_Bands.Start(), 0};
    const adios2::Dims count{m_Bands.Count(), grid.Columns()};
    const size_t levels = m_Fields.Pressures().size();
    m_Tas = Define<float>("tas", shape, start, count, {"lat", "lon"});
    m_Pr = Define<float>("pr", shape, start, count, {"lat", "lon"});
    m_Psl = Define<float>("psl", shape, start, count, {"lat", "lon"});
    m_Ta = Define<float>("ta", {levels, shape[0], shape[1]}, {0, start[0], start[1]},
                         {levels, count[0], count[1]}, {"plev", "lat", "lon"});

    const auto field = [this](const std::string &name, const std::string &units,
                              const std::string &longName, const std::string &standardName)
    {
        Describe(name, "units", units);
        Describe(name, "long_name", longName);
        Describe(name, "standard_name", standardName);
        Describe(name, "cell_methods", "time: point");
        m_IO.DefineAttribute<float>("_FillValue", FillValue, name);
    };
    field("tas", "K", "Near-Surface Air Temperature", "air_temperature");
    field("pr", "kg m-2 s-1", "Precipitation", "precipitation_flux");
    field("psl", "Pa", "Sea Level Pressure", "air_pressure_at_mean_sea_level");
    field("ta", "K", "Air Temperature", "air_temperature");
}

void Output::PutCoordinates()
{
    m_Engine.Put(m_Lat, m_Latitudes.data());
    if (m_Bands.Rank() == 0)
    {
        m_Engine.Put(m_Lon, m_Longitudes.data());
        m_Engine.Put(m_Plev, m_Fields.Pressures().data());
    }
}

void Output::PutFields(const size_t step)
{
    if (m_Bands.Rank() == 0)
    {
        m_Engine.Put(m_Time,
                     static_cast<double>(step) / static_cast<double>(m_Options.StepsPerDay));
    }
    m_Engine.Put(m_Tas, m_Fields.AirTemperature().data());
    m_Engine.Put(m_Pr, m_Fields.Rain().data());
    m_Engine.Put(m_Psl, m_Fields.SeaLevelPressure().data());
    m_Engine.Put(m_Ta, m_Fields.LevelTemperature().data());
}

template <class T>
adios2::Variable<T> Output::Define(const std::string &name, const adios2::Dims &shape,
                                   const adios2::Dims &start, const adios2::Dims &count,
                                   const std::vector<std::string> &dimensions)
{
    // The variable comes first: an attribute can't be attached to one that isn't there.
    const auto variable = m_IO.DefineVariable<T>(name, shape, start, count, adios2::ConstantDims);
    m_IO.DefineAttribute<std::string>("_ARRAY_DIMENSIONS", dimensions.data(), dimensions.size(),
                                      name);
    return variable;
}

void Output::Describe(const std::string &variable, const std::string &attribute,
                      const std::string &value)
{
    m_IO.DefineAttribute<std::string>(attribute, value, variable);
}

} // end namespace climate
