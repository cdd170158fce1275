#include "Grid.h"

namespace climate
{

Grid::Grid(const size_t rows, const size_t columns)
: m_Rows(rows), m_Columns(columns), m_RowHeight(EarthRadius * Pi / static_cast<double>(rows)),
  m_Areas(rows), m_EdgeLengths(rows + 1, 0.0)
{
    const double turn = 2 * Pi / static_cast<double>(columns);
    for (size_t row = 0; row < rows; ++row)
    {
        const double south = std::sin(EdgeLatitude(row) * RadiansPerDegree);
        const double north = std::sin(EdgeLatitude(row + 1) * RadiansPerDegree);
        m_Areas[row] = EarthRadius * EarthRadius * turn * (north - south);
    }
    for (size_t edge = 1; edge < rows; ++edge)
    {
        m_EdgeLengths[edge] = EarthRadius * turn * std::cos(EdgeLatitude(edge) * RadiansPerDegree);
    }
}

double Grid::Latitude(const size_t row) const
{
    return -90 + 180 * (static_cast<double>(row) + 0.5) / static_cast<double>(m_Rows);
}

double Grid::Longitude(const size_t column) const
{
    return 360 * static_cast<double>(column) / static_cast<double>(m_Columns);
}

double Grid::EdgeLatitude(const size_t edge) const
{
    return -90 + 180 * static_cast<double>(edge) / static_cast<double>(m_Rows);
}

double Grid::EdgeLongitude(const size_t column) const
{
    return 360 * (static_cast<double>(column) + 0.5) / static_cast<double>(m_Columns);
}

double Grid::CellWidth(const size_t row) const
{
    return EarthRadius * std::cos(Latitude(row) * RadiansPerDegree) * 2 * Pi /
           static_cast<double>(m_Columns);
}

} // end namespace climate
