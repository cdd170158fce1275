#include "Waves.h"

#include "Random.h"

#include <algorithm>

namespace climate
{

Waves::Waves(const Spectrum &spectrum, const uint64_t seed, const std::vector<double> &longitudes)
: m_Spectrum(spectrum), m_Seed(seed), m_Columns(longitudes.size())
{
    double variance = 0;
    for (size_t m = 1; m <= spectrum.Wavenumbers; ++m)
    {
        const double off =
            (static_cast<double>(m) - spectrum.PeakWavenumber) / (0.6 * spectrum.PeakWavenumber);
        m_Deviations.push_back(std::exp(-0.5 * off * off));
        // A pair of shapes adds sin2 + cos2 = 1, the constant one adds 1.
        variance += m_Deviations.back() * m_Deviations.back() *
                    (static_cast<double>(spectrum.Structures) + 1);
        for (const double longitude : longitudes)
        {
            m_Cosines.push_back(std::cos(static_cast<double>(m) * longitude * RadiansPerDegree));
            m_Sines.push_back(std::sin(static_cast<double>(m) * longitude * RadiansPerDegree));
        }
    }
    for (size_t m = 0; m < spectrum.Wavenumbers; ++m)
    {
        m_Deviations[m] /= std::sqrt(variance);
        for (size_t k = 0; k < Shapes(); ++k)
        {
            m_Amplitudes.push_back(m_Deviations[m] *
                                   NormalPair(seed, spectrum.Family, 0, m_Amplitudes.size()));
        }
    }
}

void Waves::Advance(const uint64_t step, const double days)
{
    const double kept = std::exp(-days / m_Spectrum.MemoryDays);
    const double renewed = std::sqrt(1 - kept * kept);
    for (size_t m = 0; m < m_Spectrum.Wavenumbers; ++m)
    {
        const double angle = -static_cast<double>(m + 1) * m_Spectrum.DegreesPerDay * days;
        const auto turn = std::polar(kept, angle * RadiansPerDegree);
        for (size_t k = 0; k < Shapes(); ++k)
        {
            const size_t mode = m * Shapes() + k;
            m_Amplitudes[mode] =
                turn * m_Amplitudes[mode] +
                renewed * m_Deviations[m] * NormalPair(m_Seed, m_Spectrum.Family, step + 1, mode);
        }
    }
}

void Waves::Evaluate(const double latitude, double *values) const
{
    std::vector<double> shapes{1.0};
    for (size_t k = 1; k <= m_Spectrum.Structures; ++k)
    {
        const double angle = 2 * static_cast<double>(k) * latitude * RadiansPerDegree;
        shapes.push_back(std::cos(angle));
        shapes.push_back(std::sin(angle));
    }
    std::fill_n(values, m_Columns, 0.0);
    for (size_t m = 0; m < m_Spectrum.Wavenumbers; ++m)
    {
        std::complex<double> amplitude = 0;
        for (size_t k = 0; k < shapes.size(); ++k)
        {
            amplitude += shapes[k] * m_Amplitudes[m * shapes.size() + k];
        }
        const double *cosines = m_Cosines.data() + m * m_Columns;
        const double *sines = m_Sines.data() + m * m_Columns;
        for (size_t i = 0; i < m_Columns; ++i)
        {
            values[i] += amplitude.real() * cosines[i] - amplitude.imag() * sines[i];
        }
    }
}

} // end namespace climate
