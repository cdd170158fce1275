#include "Bands.h"

#include "Options.h"

#include <algorithm>
#include <string>

namespace climate
{

Bands::Bands(MPI_Comm communicator, const size_t rows) : m_Communicator(communicator)
{
    int ranks = 1;
    MPI_Comm_rank(communicator, &m_Rank);
    MPI_Comm_size(communicator, &ranks);
    const auto parts = static_cast<size_t>(ranks);
    if (rows < Field::Halo * parts)
    {
        throw BadOption("--nlat " + std::to_string(rows) + " is too few for " +
                        std::to_string(ranks) + " ranks: at least " +
                        std::to_string(Field::Halo * parts) + " are needed");
    }
    const auto rank = static_cast<size_t>(m_Rank);
    m_Start = rows * rank / parts;
    m_Count = rows * (rank + 1) / parts - m_Start;
    m_South = m_Rank > 0 ? m_Rank - 1 : MPI_PROC_NULL;
    m_North = m_Rank + 1 < ranks ? m_Rank + 1 : MPI_PROC_NULL;
}

void Bands::Exchange(const std::vector<Field *> &fields)
{
    constexpr auto halo = static_cast<std::ptrdiff_t>(Field::Halo);
    const auto count = static_cast<std::ptrdiff_t>(m_Count);
    Shift(fields, m_North, m_South, count - halo, -halo);
    Shift(fields, m_South, m_North, 0, count);
    for (Field *field : fields)
    {
        field->WrapLongitude();
    }
}

void Bands::Shift(const std::vector<Field *> &fields, const int to, const int from,
                  const std::ptrdiff_t firstSent, const std::ptrdiff_t firstReceived)
{
    const size_t columns = fields.front()->Columns();
    const size_t total = fields.size() * Field::Halo * columns;
    m_Outgoing.resize(total);
    m_Incoming.resize(total);
    auto out = m_Outgoing.begin();
    for (const Field *field : fields)
    {
        for (size_t k = 0; k < Field::Halo; ++k, out += static_cast<std::ptrdiff_t>(columns))
        {
            std::copy_n(field->Row(firstSent + static_cast<std::ptrdiff_t>(k)), columns, out);
        }
    }
    MPI_Sendrecv(m_Outgoing.data(), static_cast<int>(total), MPI_DOUBLE, to, 0, m_Incoming.data(),
                 static_cast<int>(total), MPI_DOUBLE, from, 0, m_Communicator, MPI_STATUS_IGNORE);
    // Beyond a pole lies a copy of the last row: it has no gradient and nothing flows there.
    const std::ptrdiff_t polar = firstReceived < 0 ? 0 : firstReceived - 1;
    auto in = m_Incoming.cbegin();
    for (Field *field : fields)
    {
        for (size_t k = 0; k < Field::Halo; ++k, in += static_cast<std::ptrdiff_t>(columns))
        {
            double *row = field->Row(firstReceived + static_cast<std::ptrdiff_t>(k));
            if (from == MPI_PROC_NULL)
            {
                std::copy_n(field->Row(polar), columns, row);
            }
            else
            {
                std::copy_n(in, columns, row);
            }
        }
    }
}

double Bands::Max(const double value) const
{
    double largest = value;
    MPI_Allreduce(&value, &largest, 1, MPI_DOUBLE, MPI_MAX, m_Communicator);
    return largest;
}

double Bands::Sum(const double value) const
{
    double sum = value;
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, m_Communicator);
    return sum;
}

} // end namespace climate
