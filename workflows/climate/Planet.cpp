#include "Planet.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace climate
{

namespace
{

/** An ellipse in latitude and longitude, degrees; Height in m is used for mountains only. */
struct Ellipse
{
    double Latitude, Longitude, HalfLatitude, HalfLongitude, Height;

    /** Distance from the centre, 1 on the rim. */
    double Distance(const double latitude, const double longitude) const
    {
        const double east = std::remainder(longitude - Longitude, 360.0) / HalfLongitude;
        const double north = (latitude - Latitude) / HalfLatitude;
        return std::sqrt(east * east + north * north);
    }
};

constexpr double AllAround = 1e9;
constexpr double LowlandHeight = 350; // m

constexpr std::array<Ellipse, 20> Continents{{
    {52, 258, 20, 33, 0}, {64, 250, 9, 42, 0},  {34, 262, 14, 18, 0},  {19, 261, 7, 9, 0},
    {74, 319, 10, 17, 0}, {-6, 298, 16, 17, 0}, {-24, 301, 14, 13, 0}, {-41, 290, 14, 6, 0},
    {17, 14, 18, 29, 0},  {-9, 25, 25, 15, 0},  {24, 47, 11, 11, 0},   {55, 28, 15, 30, 0},
    {60, 95, 15, 62, 0},  {46, 85, 14, 48, 0},  {29, 98, 12, 24, 0},   {18, 78, 11, 8, 0},
    {1, 114, 5, 10, 0},   {-5, 141, 4, 10, 0},  {-25, 134, 12, 20, 0}, {-92, 0, 21, AllAround, 0},
}};

constexpr std::array<Ellipse, 8> Mountains{{
    {33, 88, 7, 16, 4600},
    {-18, 291, 24, 4, 3400},
    {43, 249, 15, 7, 2100},
    {74, 320, 7, 11, 2400},
    {4, 37, 12, 6, 1700},
    {44, 10, 4, 9, 1300},
    {60, 60, 9, 3, 900},
    {-88, 0, 14, AllAround, 2600},
}};

/** A few waves that fray the coasts. */
double Fray(const double latitude, const double longitude)
{
    const double x = longitude * RadiansPerDegree;
    const double y = latitude * RadiansPerDegree;
    return 0.05 * std::sin(5 * x + 7 * y) + 0.04 * std::sin(11 * x - 9 * y + 1) +
           0.03 * std::sin(17 * x + 21 * y + 2);
}

double LandFraction(const double latitude, const double longitude)
{
    constexpr double coastWidth = 0.12;
    double inland = -1;
    for (const Ellipse &continent : Continents)
    {
        inland = std::max(inland, 1 - continent.Distance(latitude, longitude));
    }
    // Towards the poles the waves would be squeezed into stripes.
    const double fray = Fray(latitude, longitude) * std::cos(latitude * RadiansPerDegree);
    return std::clamp(0.5 + (inland + fray) / coastWidth, 0.0, 1.0);
}

double GroundHeight(const double latitude, const double longitude)
{
    double height = LowlandHeight;
    for (const Ellipse &range : Mountains)
    {
        const double distance = range.Distance(latitude, longitude);
        height += range.Height * std::exp(-distance * distance);
    }
    return height;
}

} // namespace

Planet::Planet(const Grid &grid, const size_t firstRow, const size_t rows, const bool mountains)
: m_Columns(grid.Columns())
{
    for (size_t row = 0; row < rows; ++row)
    {
        const double latitude = grid.Latitude(firstRow + row);
        for (size_t column = 0; column < m_Columns; ++column)
        {
            const double longitude = grid.Longitude(column);
            const double land = LandFraction(latitude, longitude);
            m_Land.push_back(land);
            m_Height.push_back(mountains ? land * GroundHeight(latitude, longitude) : 0.0);
        }
    }
}

} // end namespace climate
