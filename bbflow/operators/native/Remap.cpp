#include "Remap.h"

#include "Kinds.h"

#include <algorithm>
#include <limits>

namespace bbflow
{

namespace
{

constexpr uint64_t PlanesAtOnce = 8; ///< as many as there are registers for
constexpr int64_t Ahead = 128;       ///< links: of this many later ones the values are asked for

/** Planes that go along together: each one's values and results. */
template <class T>
struct PlaneGroup
{
    const T *Values[PlanesAtOnce];
    double *Sums[PlanesAtOnce];
    double *Weights[PlanesAtOnce];
};

/** Missing values as NaN, which goes through the sum and is noticed at its end. */
template <bool FILL, class T>
BBFLOW_INLINE double Known(const T value, const T fill)
{
    return FILL && value == fill ? std::numeric_limits<double>::quiet_NaN() : double(value);
}

/** A row of a plane in which something is missing, or infinite. */
template <bool FILL, class T>
void ReduceValid(const BbflowLinks &links, const uint64_t row, const T *values,
                 const int64_t stride, const T fill, double &sum, double &total)
{
    sum = 0;
    total = 0;
    for (int64_t k = links.Starts[row]; k < links.Starts[row + 1]; ++k)
    {
        const double value = Known<FILL>(values[links.Columns[k] * stride], fill);
        if (value == value)
        {
            sum += links.Weights[k] * value;
            total += links.Weights[k];
        }
    }
}

template <uint64_t COUNT, bool FILL, class T>
BBFLOW_INLINE void ReduceGroup(const BbflowLinks &links, const PlaneGroup<T> &group,
                               const int64_t stride, const T fill)
{
    const int64_t last = links.Starts[links.Rows];
    for (uint64_t row = 0; row < links.Rows; ++row)
    {
        double sums[COUNT] = {};
        for (int64_t k = links.Starts[row]; k < links.Starts[row + 1]; ++k)
        {
            const double weight = links.Weights[k];
            const int64_t at = links.Columns[k] * stride;
            const int64_t later = links.Columns[k + Ahead < last ? k + Ahead : k] * stride;
            for (uint64_t plane = 0; plane < COUNT; ++plane)
            {
                if (COUNT > 1)
                {
                    __builtin_prefetch(group.Values[plane] + later);
                }
                sums[plane] += weight * Known<FILL>(group.Values[plane][at], fill);
            }
        }
        double lacking = 0; // NaN if anything in any of the planes is missing, or infinite
        for (uint64_t plane = 0; plane < COUNT; ++plane)
        {
            group.Sums[plane][row] = sums[plane];
            group.Weights[plane][row] = links.Totals[row];
            lacking += sums[plane] - sums[plane];
        }
        for (uint64_t plane = 0; lacking != 0 && plane < COUNT; ++plane)
        {
            if (sums[plane] - sums[plane] != 0)
            {
                ReduceValid<FILL>(links, row, group.Values[plane], stride, fill,
                                  group.Sums[plane][row], group.Weights[plane][row]);
            }
        }
    }
}

template <bool FILL, class T>
BBFLOW_INLINE void ReduceAll(const BbflowLinks &links, const BbflowPlanes &planes, const T fill,
                             double *parts)
{
    const uint64_t all = planes.Steps * planes.Planes;
    for (uint64_t first = 0; first < all;)
    {
        const uint64_t count = all - first > 2 ? std::min(PlanesAtOnce, all - first) : 1;
        PlaneGroup<T> group = {};
        for (uint64_t slot = 0; slot < PlanesAtOnce; ++slot)
        {
            const uint64_t at = first + std::min(slot, count - 1); // the last one fills up a group
            const uint64_t step = at / planes.Planes;
            const uint64_t plane = at % planes.Planes;
            group.Values[slot] =
                static_cast<const T *>(planes.Blocks[step]) + planes.Offsets[plane];
            group.Sums[slot] = parts + (2 * step * planes.Planes + plane) * links.Rows;
            group.Weights[slot] = group.Sums[slot] + planes.Planes * links.Rows;
        }
        count > 1 ? ReduceGroup<PlanesAtOnce, FILL>(links, group, planes.Stride, fill)
                  : ReduceGroup<1, FILL>(links, group, planes.Stride, fill);
        first += count;
    }
}

#define define(CODE, T)                                                                            \
    BBFLOW_CLONES void Reduce(const BbflowLinks &links, const BbflowPlanes &planes, const T *fill, \
                              double *parts)                                                       \
    {                                                                                              \
        fill ? ReduceAll<true>(links, planes, *fill, parts)                                        \
             : ReduceAll<false>(links, planes, T(), parts);                                        \
    }
BBFLOW_FOREACH_FOLD_TYPE(define)
#undef define

} // namespace

} // end namespace bbflow

int bbflow_remap(const int type, const BbflowLinks *links, const BbflowPlanes *planes,
                 double *parts)
{
    const bool isKnown = bbflow::WithType(
        type,
        [&](auto own)
        {
            bbflow::Reduce(*links, *planes, static_cast<const decltype(own) *>(planes->Fill),
                           parts);
        });
    return isKnown ? 0 : 2;
}
