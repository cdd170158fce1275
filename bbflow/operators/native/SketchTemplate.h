#pragma once

#include "Lanes.h"
#include "Sketch.h"

#include <algorithm>
#include <type_traits>
#include <vector>

namespace bbflow
{

/** How many points take all steps in before the next ones: their counts stay in the cache. */
constexpr uint64_t StretchPoints = 1024;

/** How many steps sketches have taken in, and hence which of their rows hold something. */
struct SketchFill
{
    uint64_t Seen;
    uint64_t Size;
    uint64_t Top;

    uint64_t Buffered() const { return Seen % Size; }
    uint64_t Runs() const { return Seen / Size; }
    /** The weight of a level's run in units of 2^level; 0: there is none. */
    uint64_t Units(const uint64_t level) const
    {
        return level < Top ? Runs() >> level & 1 : Runs() >> Top;
    }
};

/** Neighbouring points of a state, at most as many as there are lanes. */
template <class T>
struct SketchColumn
{
    T *Values;
    uint64_t Stride;
    uint64_t Points;
    uint64_t Size;

    T *Run(const uint64_t level) const { return Values + (level + 1) * Size * Stride; }
};

/** Sorts and merges runs of one column at a time, in rows that stay in the cache. */
template <class T>
class SketchWork
{
public:
    SketchWork(const uint64_t size, const uint64_t top)
    : m_Size(size), m_Top(top), m_Rows(2 * size), m_Merged(size)
    {
    }

    /** Makes the values that lie in the second half of the rows a run. */
    void Sort() { SortRows(Carry(), m_Size); }

    /** Brings rows of a state to a place in the second half. */
    void Load(const T *from, const SketchColumn<T> &column, const uint64_t at, const uint64_t count)
    {
        for (uint64_t i = 0; i < count; ++i)
        {
            std::copy_n(from + i * column.Stride, column.Points, Carry()[at + i].Values);
        }
    }

    /** Writes the second half's run to a level. */
    void Store(const SketchColumn<T> &column, const uint64_t level) const
    {
        for (uint64_t i = 0; i < m_Size; ++i)
        {
            std::copy_n(m_Rows[m_Size + i].Values, column.Points,
                        column.Run(level) + i * column.Stride);
        }
    }

    /** Merges a run of the same weight into that of the second half, which then weighs twice. */
    void Collapse(const SketchColumn<T> &column, const uint64_t level)
    {
        LoadFalling(column, level);
        CollapseRows(m_Rows.data(), m_Size);
    }

    /** Merges a run of a weight into that of the second half, of another weight; then that has the
     * weight of both. */
    void Collapse(const SketchColumn<T> &column, const uint64_t level, const uint64_t weight,
                  const uint64_t carried)
    {
        LoadFalling(column, level);
        if (weight == carried)
        {
            CollapseRows(m_Rows.data(), m_Size);
            return;
        }
        for (uint64_t lane = 0; lane < column.Points; ++lane)
        {
            CollapseLane(lane, weight, carried);
        }
        std::copy(m_Merged.begin(), m_Merged.end(), Carry());
    }

    /** Adds the run of the second half to a state that had some runs before. */
    void Add(const SketchColumn<T> &column, const SketchFill &before)
    {
        uint64_t level = 0;
        for (; level < m_Top && before.Units(level); ++level)
        {
            Collapse(column, level);
        }
        if (level == m_Top && before.Units(m_Top))
        {
            Collapse(column, m_Top, before.Units(m_Top), 1);
        }
        Store(column, level);
    }

private:
    uint64_t m_Size;
    uint64_t m_Top;
    std::vector<LaneRow<T>> m_Rows;
    std::vector<LaneRow<T>> m_Merged;

    LaneRow<T> *Carry() { return m_Rows.data() + m_Size; }

    void LoadFalling(const SketchColumn<T> &column, const uint64_t level)
    {
        for (uint64_t i = 0; i < m_Size; ++i)
        {
            std::copy_n(column.Run(level) + i * column.Stride, column.Points,
                        m_Rows[m_Size - 1 - i].Values);
        }
    }

    /** Of both runs in order, each value repeated by its weight, keeps the first of every
     * `weight + carried`. */
    void CollapseLane(const uint64_t lane, const uint64_t weight, const uint64_t carried)
    {
        const LaneRow<T> *rows = m_Rows.data();
        uint64_t loaded = 0;
        uint64_t own = 0;
        uint64_t passed = 0;
        for (uint64_t kept = 0; kept < m_Size;)
        {
            const bool takes =
                own == m_Size || (loaded < m_Size && rows[m_Size - 1 - loaded].Values[lane] <
                                                         rows[m_Size + own].Values[lane]);
            const uint64_t row = takes ? m_Size - 1 - loaded : m_Size + own;
            loaded += takes;
            own += !takes;
            passed += takes ? weight : carried;
            m_Merged[kept].Values[lane] = rows[row].Values[lane];
            kept += passed > kept * (weight + carried);
        }
    }
};

/** Calls back for each stretch of points that have seen as many steps as each other. */
template <class F>
void ForEqual(const uint64_t points, const int32_t *first, const int32_t *second, const F &work)
{
    for (uint64_t at = 0; at < points;)
    {
        uint64_t end = at + 1;
        while (end < points && first[end] == first[at] && second[end] == second[at])
        {
            ++end;
        }
        work(at, end - at);
        at = end;
    }
}

template <class T>
SketchColumn<T> ColumnAt(const SketchShape &shape, const Sketch &state, const uint64_t at,
                         const uint64_t points)
{
    return {static_cast<T *>(state.Values) + at, state.Stride, points, shape.Size};
}

/** Calls back for columns of a stretch of points. */
template <class T, class F>
void ForColumns(const uint64_t at, const uint64_t points, const F &work)
{
    for (uint64_t i = 0; i < points; i += LaneCount<T>)
    {
        work(at + i, std::min(LaneCount<T>, points - i));
    }
}

template <class T>
void CopyRows(const T *from, const uint64_t fromStride, T *to, const uint64_t toStride,
              const uint64_t rows, const uint64_t points)
{
    for (uint64_t i = 0; i < rows; ++i)
    {
        std::copy_n(from + i * fromStride, points, to + i * toStride);
    }
}

/** Copies the rows that hold something, besides the numbers of each point. */
template <class T>
void CopySketch(const SketchShape &shape, const Sketch &source, const Sketch &target)
{
    std::copy_n(source.Count, shape.Points, target.Count);
    std::copy_n(static_cast<T *>(source.Max), shape.Points, static_cast<T *>(target.Max));
    ForEqual(shape.Points, source.Seen, source.Seen,
             [&](const uint64_t at, const uint64_t points)
             {
                 const SketchFill fill{uint64_t(source.Seen[at]), shape.Size, shape.Top};
                 const auto from = ColumnAt<T>(shape, source, at, points);
                 const auto to = ColumnAt<T>(shape, target, at, points);
                 CopyRows(from.Values, from.Stride, to.Values, to.Stride, fill.Buffered(), points);
                 for (uint64_t level = 0; level <= shape.Top; ++level)
                 {
                     CopyRows(from.Run(level), from.Stride, to.Run(level), to.Stride,
                              fill.Units(level) ? shape.Size : 0, points);
                 }
             });
    std::copy_n(source.Seen, shape.Points, target.Seen);
}

/** Takes steps in for points that have seen as many as each other. */
template <class T>
void FoldStretch(SketchWork<T> &work, const SketchShape &shape, const Sketch &state,
                 const T *const *blocks, const uint64_t steps, const T *fill, const uint64_t at,
                 const uint64_t points)
{
    const auto all = ColumnAt<T>(shape, state, at, points);
    SketchFill filled{uint64_t(state.Seen[at]), shape.Size, shape.Top};
    for (uint64_t k = 0; k < steps; ++k)
    {
        TakeStep(blocks[k] + at, fill, points, all.Values + filled.Buffered() * all.Stride,
                 state.Count + at, static_cast<T *>(state.Max) + at);
        if (filled.Buffered() + 1 == shape.Size)
        {
            ForColumns<T>(at, points,
                          [&](const uint64_t start, const uint64_t lanes)
                          {
                              const auto column = ColumnAt<T>(shape, state, start, lanes);
                              work.Load(column.Values, column, 0, shape.Size);
                              work.Sort();
                              work.Add(column, filled);
                          });
        }
        ++filled.Seen;
    }
    std::fill_n(state.Seen + at, points, int32_t(filled.Seen));
}

template <class T>
void FoldSketch(const SketchShape &shape, const Sketch &state, const void *const *blocks,
                const uint64_t steps, const void *fill)
{
    SketchWork<T> work(shape.Size, shape.Top);
    ForEqual(shape.Points, state.Seen, state.Seen,
             [&](const uint64_t at, const uint64_t points)
             {
                 for (uint64_t i = 0; i < points; i += StretchPoints)
                 {
                     FoldStretch(work, shape, state, reinterpret_cast<const T *const *>(blocks),
                                 steps, static_cast<const T *>(fill), at + i,
                                 std::min(StretchPoints, points - i));
                 }
             });
}

} // end namespace bbflow
