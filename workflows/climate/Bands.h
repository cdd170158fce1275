#pragma once

#include "Field.h"

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace climate
{

/** The bands of latitude that the ranks share a grid by, and the way between them. */
class Bands
{
public:
    /** @throws BadOption if a rank would get fewer rows than a halo has. */
    Bands(MPI_Comm communicator, size_t rows);

    int Rank() const { return m_Rank; }
    /** First row of this rank. */
    size_t Start() const { return m_Start; }
    /** Number of rows of this rank. */
    size_t Count() const { return m_Count; }

    /** Fills the halos of several fields at once, one message to each neighbour. */
    void Exchange(const std::vector<Field *> &fields);

    /** Largest value of all ranks; the only reduction that may act on the fields, as its result
     *  doesn't depend on an order. */
    double Max(double value) const;
    /** Sum over the ranks, good for diagnostics only. */
    double Sum(double value) const;

private:
    MPI_Comm m_Communicator;
    int m_Rank = 0;
    int m_South = MPI_PROC_NULL;
    int m_North = MPI_PROC_NULL;
    size_t m_Start = 0;
    size_t m_Count = 0;
    std::vector<double> m_Outgoing;
    std::vector<double> m_Incoming;

    void Shift(const std::vector<Field *> &fields, int to, int from, std::ptrdiff_t firstSent,
               std::ptrdiff_t firstReceived);
};

} // end namespace climate
