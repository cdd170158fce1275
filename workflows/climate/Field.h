#pragma once

#include <cstddef>
#include <vector>

namespace climate
{

/** One double per cell of a band, with a halo of two cells on every side. */
class Field
{
public:
    static constexpr size_t Halo = 2;

    Field(size_t rows, size_t columns);

    size_t Rows() const { return m_Rows; }
    size_t Columns() const { return m_Columns; }

    /** First cell of a row; rows -2 to Rows() + 1 and columns -2 to Columns() + 1 exist. */
    double *Row(std::ptrdiff_t row) { return m_Values.data() + Offset(row); }
    const double *Row(std::ptrdiff_t row) const { return m_Values.data() + Offset(row); }

    /** Fills the halo's columns of every row from the other end of the row. */
    void WrapLongitude();

private:
    size_t m_Rows;
    size_t m_Columns;
    std::vector<double> m_Values;

    std::ptrdiff_t Offset(std::ptrdiff_t row) const
    {
        constexpr auto halo = static_cast<std::ptrdiff_t>(Halo);
        return (row + halo) * (static_cast<std::ptrdiff_t>(m_Columns) + 2 * halo) + halo;
    }
};

} // end namespace climate
