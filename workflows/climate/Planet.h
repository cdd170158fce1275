#pragma once

#include "Grid.h"

#include <cstddef>
#include <vector>

namespace climate
{

/** The ground of a band: made-up continents and mountains, placed roughly like the Earth's. */
class Planet
{
public:
    /** @param mountains false makes all land lie at sea level. */
    Planet(const Grid &grid, size_t firstRow, size_t rows, bool mountains);

    /** Fraction of each cell that is land; the cells of the band's row. */
    const double *Land(size_t row) const { return m_Land.data() + row * m_Columns; }
    /** Height above sea level, m. */
    const double *Height(size_t row) const { return m_Height.data() + row * m_Columns; }

private:
    size_t m_Columns;
    std::vector<double> m_Land;
    std::vector<double> m_Height;
};

} // end namespace climate
