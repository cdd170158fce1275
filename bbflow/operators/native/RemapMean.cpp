#include "RemapMean.h"

#include "RemapRows.h"

#include <algorithm>
#include <memory>
#include <new>

namespace bbflow
{

namespace
{

/** Takes planes through the tiles, some at a time. */
template <class T>
class Product
{
public:
    Product(const BbflowLinks &links, const BbflowTiles &tiles, const BbflowPlanes &planes)
    : m_Links(links), m_Tiles(tiles), m_Planes(planes),
      m_Blocks(new (std::nothrow) const T *[PlanesAtOnce * planes.Steps]),
      m_Tile(new (std::nothrow) double[tiles.MostGroups * GroupColumns * PlanesAtOnce])
    {
    }

    bool HasRoom() const { return m_Blocks && m_Tile; }

    void Run(double *parts, uint8_t *steady)
    {
        const uint64_t all = m_Planes.Planes;
        m_Count = all > 4 ? 8 : all > 2 ? 4 : all;
        for (uint64_t at = 0; at < all; at += m_Count)
        {
            const uint64_t first = all < m_Count ? 0 : std::min(at, all - m_Count);
            Results results;
            m_Beside = m_Count == BesidePlanes;
            for (uint64_t slot = 0; slot < m_Count; ++slot)
            {
                const uint64_t plane = std::min(first + slot, all - 1);
                Place(plane, slot);
                results.Sums[slot] = parts + plane * m_Links.Rows;
                results.Weights[slot] = parts + (all + plane) * m_Links.Rows;
            }
            std::fill_n(steady + first, std::min(m_Count, all), uint8_t(Reduce(results)));
        }
    }

private:
    const BbflowLinks &m_Links;
    const BbflowTiles &m_Tiles;
    const BbflowPlanes &m_Planes;
    const std::unique_ptr<const T *[]> m_Blocks; ///< of shape (planes, steps)
    const std::unique_ptr<double[]> m_Tile;      ///< of shape (columns, planes)
    uint64_t m_Count = 0; ///< planes that go along; if there are fewer, the last one fills up
    bool m_Beside = true; ///< whether their values of a column lie side by side
    alignas(64) double m_Sums[PlanesAtOnce * PlaneStride]; ///< of some columns, plane by plane

    void Place(const uint64_t plane, const uint64_t slot)
    {
        for (uint64_t k = 0; k < m_Planes.Steps; ++k)
        {
            const T *&place = m_Blocks[slot * m_Planes.Steps + k];
            place = static_cast<const T *>(m_Planes.Blocks[k]) + m_Planes.Offsets[plane];
            m_Beside &= place == m_Blocks[k] + slot;
        }
    }

    bool Reduce(Results &results)
    {
        const int64_t links = m_Links.Starts[m_Links.Rows];
        const int64_t size = int64_t(m_Tiles.Links);
        const int64_t tiles = (links + size - 1) / size;
        uint64_t row = 0;
        for (int64_t tile = 0; tile < tiles; ++tile)
        {
            if (!Bring(m_Tiles.Groups[tile], m_Tiles.Groups[tile + 1], m_Tiles.Groups[tiles]))
            {
                return false;
            }
            const int64_t end = std::min((tile + 1) * size, links);
            const LinkTile own = {tile * size, end, m_Tiles.Places, m_Tile.get()};
            row = ReduceTile(m_Count, m_Links, own, row, results);
        }
        return true;
    }

    /** Brings some groups of columns into the tile. */
    bool Bring(int64_t group, const int64_t end, const int64_t all)
    {
        double *out = m_Tile.get();
        while (group < end)
        {
            const int64_t groups = std::min(SpanGroups, end - group);
            const uint32_t *firsts = m_Tiles.Firsts + group;
            const int64_t later = std::min(groups, all - group - groups);
            const Span span = {groups, firsts, firsts + later, m_Planes.Stride,
                               int64_t(m_Tiles.Columns)};
            if (!(m_Beside ? BringBeside(span, out) : BringPlanes(span, out)))
            {
                return false;
            }
            out += uint64_t(groups * GroupColumns) * m_Count;
            group += groups;
        }
        return true;
    }

    bool BringBeside(const Span &span, double *out) const
    {
        const T *fill = static_cast<const T *>(m_Planes.Fill);
        return AddBeside(m_Blocks.get(), m_Planes.Steps, span, fill, out);
    }

    bool BringPlanes(const Span &span, double *out)
    {
        const T *fill = static_cast<const T *>(m_Planes.Fill);
        for (uint64_t plane = 0; plane < m_Count; ++plane)
        {
            double *sums = m_Count > 1 ? m_Sums + plane * PlaneStride : out;
            if (!AddPlane(m_Blocks.get() + plane * m_Planes.Steps, m_Planes.Steps, span, fill,
                          sums))
            {
                return false;
            }
        }
        if (m_Count > 1)
        {
            TurnPlanes(m_Count, m_Sums, uint64_t(span.Groups * GroupColumns), out);
        }
        return true;
    }
};

template <class T>
int RemapSum(const BbflowLinks &links, const BbflowTiles &tiles, const BbflowPlanes &planes,
             double *parts, uint8_t *steady, T)
{
    Product<T> product(links, tiles, planes);
    if (!product.HasRoom())
    {
        return 1;
    }
    product.Run(parts, steady);
    return 0;
}

} // namespace

} // end namespace bbflow

int64_t bbflow_remap_tiles(const uint32_t *columns, const uint64_t links, const uint64_t all,
                           const uint64_t tileLinks, uint16_t *places, int64_t *groups,
                           uint32_t *firsts)
{
    const std::unique_ptr<uint64_t[]> order(new (std::nothrow) uint64_t[tileLinks]);
    if (!order)
    {
        return -1;
    }
    constexpr uint64_t size = bbflow::GroupColumns;
    const uint64_t last = all < size ? 0 : all - size; // where a group can begin
    int64_t count = 0;
    for (uint64_t begin = 0; begin < links; begin += tileLinks)
    {
        const uint64_t n = std::min(tileLinks, links - begin);
        for (uint64_t i = 0; i < n; ++i)
        {
            order[i] = uint64_t(columns[begin + i]) << 16 | i;
        }
        std::sort(order.get(), order.get() + n);
        const int64_t own = *groups++ = count;
        for (uint64_t i = 0; i < n; ++i)
        {
            const uint64_t column = order[i] >> 16;
            const uint64_t first = std::min(column / size * size, last);
            if (count == own || first != firsts[count - 1])
            {
                firsts[count++] = uint32_t(first);
            }
            places[begin + (order[i] & 0xffff)] =
                uint16_t(uint64_t(count - own - 1) * size + column - first);
        }
    }
    *groups = count;
    return count;
}

int bbflow_remap_sum(const int type, const BbflowLinks *links, const BbflowTiles *tiles,
                     const BbflowPlanes *planes, double *parts, uint8_t *steady)
{
    int failure = 2;
    bbflow::WithType(type, [&](auto own)
                     { failure = bbflow::RemapSum(*links, *tiles, *planes, parts, steady, own); });
    return failure;
}
