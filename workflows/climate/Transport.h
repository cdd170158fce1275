#pragma once

#include "Bands.h"
#include "Field.h"
#include "Grid.h"
#include "Wind.h"

#include <cstddef>
#include <vector>

namespace climate
{

/** Carries two fields along with the wind and mixes them, in flux form on the cells of the sphere:
 *  what leaves a cell enters its neighbour, and no value leaves the range of its neighbours.
 *
 *  Advection is van Leer's limited scheme (1977) in both directions at once. Cells narrow towards
 *  the poles, which would make explicit mixing along a parallel unstable; that part is implicit, an
 *  exact solution of each row's periodic tridiagonal system, stable for any cell width. */
class Transport
{
public:
    Transport(const Grid &grid, Bands &bands);

    /** Moves the fields on by a time, in as many equal sub-steps as the scheme needs.
     *  @return the number of sub-steps. */
    size_t Advance(Field &first, Field &second, const Wind &wind, double seconds);

private:
    const Grid &m_Grid;
    Bands &m_Bands;
    Field m_Next;
    std::vector<double> m_ZonalSlopes;
    std::vector<double> m_SouthSlopes;
    std::vector<double> m_NorthSlopes;
    std::vector<double> m_ZonalFlow;
    std::vector<double> m_SouthFlow;
    std::vector<double> m_NorthFlow;

    double LargestRate(const Wind &wind) const;
    double Exchange(size_t edge) const;
    void Advect(Field &field, const Wind &wind, double seconds);
    void FlowThroughRow(const Field &field, const Wind &wind, size_t row, double seconds);
    void FlowThroughEdge(const Field &field, const Wind &wind, size_t edge, double seconds);
    void MixRows(Field &first, Field &second, double seconds) const;
};

} // end namespace climate
