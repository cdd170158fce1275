#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace climate
{

/** What sets one kind of weather apart from another. */
struct Spectrum
{
    uint64_t Family;       ///< Keeps the random numbers of two spectra apart.
    size_t Wavenumbers;    ///< Zonal wavenumbers 1 to this.
    size_t Structures;     ///< Pairs of meridional structures besides the constant one.
    double PeakWavenumber; ///< Where the variance is largest.
    double MemoryDays;     ///< e-folding time of an amplitude.
    double DegreesPerDay;  ///< Eastward speed of the waves.
};

/** A smooth random field of zero mean and unit variance: travelling waves, whose amplitudes follow
 *  a first-order autoregression. Every rank carries all amplitudes. */
class Waves
{
public:
    /** @param longitudes where the field is wanted, degrees. */
    Waves(const Spectrum &spectrum, uint64_t seed, const std::vector<double> &longitudes);

    /** Moves on to a step, by a time in days. */
    void Advance(uint64_t step, double days);

    /** Gives the field along a parallel (degrees north), one value per longitude. */
    void Evaluate(double latitude, double *values) const;

private:
    Spectrum m_Spectrum;
    uint64_t m_Seed;
    size_t m_Columns;
    std::vector<double> m_Deviations;               ///< By zonal wavenumber - 1.
    std::vector<std::complex<double>> m_Amplitudes; ///< By (wavenumber - 1, structure).
    std::vector<double> m_Cosines;                  ///< By (wavenumber - 1, column).
    std::vector<double> m_Sines;

    size_t Shapes() const { return 2 * m_Spectrum.Structures + 1; }
};

} // end namespace climate
