#include "Field.h"

namespace climate
{

Field::Field(const size_t rows, const size_t columns)
: m_Rows(rows), m_Columns(columns), m_Values((rows + 2 * Halo) * (columns + 2 * Halo), 0.0)
{
}

void Field::WrapLongitude()
{
    constexpr auto halo = static_cast<std::ptrdiff_t>(Halo);
    const auto columns = static_cast<std::ptrdiff_t>(m_Columns);
    for (std::ptrdiff_t row = -halo; row < static_cast<std::ptrdiff_t>(m_Rows) + halo; ++row)
    {
        double *values = Row(row);
        for (std::ptrdiff_t i = 0; i < halo; ++i)
        {
            values[i - halo] = values[columns + i - halo];
            values[columns + i] = values[i];
        }
    }
}

} // end namespace climate
