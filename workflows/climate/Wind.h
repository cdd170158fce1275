#pragma once

#include "Bands.h"
#include "Grid.h"
#include "Waves.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace climate
{

/** The wind of a band, from a stream function on the corners of its cells: trade winds, westerlies
 *  and the storms' eddies. Differences of a stream function have no divergence in any cell, so
 *  transport by them creates neither mass nor new extremes. */
class Wind
{
public:
    Wind(const Grid &grid, const Bands &bands, uint64_t seed);

    void Advance(uint64_t step, double days);

    /** Flow out of the eastern edges of a row, m2/s; columns -1 to the last. */
    const double *East(size_t row) const { return m_East.data() + row * (m_Columns + 1) + 1; }
    /** Flow northwards through an edge, m2/s; edge 0 is the southern one of the band. */
    const double *North(size_t edge) const { return m_North.data() + edge * m_Columns; }
    /** Stream function of the storms on an edge's corners, m2/s; corner 0 lies east of column 0. */
    const double *Storms(size_t edge) const { return m_Storms.data() + edge * m_Columns; }

private:
    const Grid &m_Grid;
    size_t m_FirstRow;
    size_t m_Rows;
    size_t m_Columns;
    Waves m_Waves;
    std::vector<double> m_Storms;
    std::vector<double> m_East;
    std::vector<double> m_North;

    void EvaluateStorms();
    void Differentiate();
};

} // end namespace climate
