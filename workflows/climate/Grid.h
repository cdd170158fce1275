#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace climate
{

constexpr double Pi = 3.14159265358979323846;
constexpr double EarthRadius = 6.371e6; ///< m
constexpr double RadiansPerDegree = Pi / 180;

/** A regular grid on the sphere, rows from south to north; the poles are edges of cells.
 *
 *  A row's southern edge has the row's number, its northern edge the next one.
 */
class Grid
{
public:
    Grid(size_t rows, size_t columns);

    size_t Rows() const { return m_Rows; }
    size_t Columns() const { return m_Columns; }

    /** Centre of a row, degrees north. */
    double Latitude(size_t row) const;
    /** Centre of a column, degrees east. */
    double Longitude(size_t column) const;
    /** Southern edge of a row, degrees north; exactly -90 and 90 at the poles. */
    double EdgeLatitude(size_t edge) const;
    /** Eastern edge of a column, degrees east. */
    double EdgeLongitude(size_t column) const;

    /** Area of a cell of a row, m2. */
    double Area(size_t row) const { return m_Areas[row]; }
    /** Length of a cell's part of an edge along a parallel, m; 0 at the poles. */
    double EdgeLength(size_t edge) const { return m_EdgeLengths[edge]; }
    /** Distance between the centres of neighbouring rows, m; also the length of an edge along a
     *  meridian. */
    double RowHeight() const { return m_RowHeight; }
    /** Distance between the centres of neighbours in a row, m. */
    double CellWidth(size_t row) const;

private:
    size_t m_Rows;
    size_t m_Columns;
    double m_RowHeight;
    std::vector<double> m_Areas;
    std::vector<double> m_EdgeLengths;
};

} // end namespace climate
