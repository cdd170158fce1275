#pragma once

#include "Bands.h"
#include "Diagnostics.h"
#include "Grid.h"
#include "Options.h"

#include <adios2.h>

#include <cstddef>
#include <string>
#include <vector>

namespace climate
{

/** Writes the steps of one rank through whichever engine the configuration selects. */
class Output
{
public:
    Output(const Options &options, const Bands &bands, const Grid &grid, const Diagnostics &fields);

    /** Writes the fields of a step. @return seconds from BeginStep to the end of EndStep. */
    double Write(size_t step);

    void Close() { m_Engine.Close(); }

private:
    const Options &m_Options;
    const Bands &m_Bands;
    const Diagnostics &m_Fields;
    adios2::ADIOS m_Adios;
    adios2::IO m_IO;
    adios2::Engine m_Engine;
    std::vector<double> m_Latitudes;
    std::vector<double> m_Longitudes;
    adios2::Variable<double> m_Lat, m_Lon, m_Plev, m_Time;
    adios2::Variable<float> m_Tas, m_Pr, m_Psl, m_Ta;

    void DefineCoordinates(const Grid &grid);
    void DefineFields(const Grid &grid);
    void PutCoordinates();
    void PutFields(size_t step);

    template <class T>
    adios2::Variable<T> Define(const std::string &name, const adios2::Dims &shape,
                               const adios2::Dims &start, const adios2::Dims &count,
                               const std::vector<std::string> &dimensions);
    void Describe(const std::string &variable, const std::string &attribute,
                  const std::string &value);
};

} // end namespace climate
