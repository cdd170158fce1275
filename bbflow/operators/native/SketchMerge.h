#pragma once

#include "SketchTemplate.h"

namespace bbflow
{

/** One column of both sides of a merge, and of what comes of it. */
template <class T>
struct SketchSides
{
    SketchColumn<T> Left;
    SketchColumn<T> Right;
    SketchColumn<T> Target;
    SketchFill LeftFill;
    SketchFill RightFill;
};

/** Joins both input buffers. @return whether that gave a run, which then is the carry */
template <class T>
bool MergeBuffers(SketchWork<T> &work, const SketchSides<T> &sides)
{
    const uint64_t size = sides.Left.Size;
    const uint64_t left = sides.LeftFill.Buffered();
    const uint64_t right = sides.RightFill.Buffered();
    const bool carries = left + right >= size;
    const uint64_t taken = carries ? size - left : 0;
    const uint64_t kept = carries ? 0 : left;
    if (carries)
    {
        work.Load(sides.Left.Values, sides.Left, 0, left);
        work.Load(sides.Right.Values, sides.Right, left, taken);
        work.Sort();
    }
    const uint64_t points = sides.Target.Points;
    CopyRows(sides.Left.Values, sides.Left.Stride, sides.Target.Values, sides.Target.Stride, kept,
             points);
    CopyRows(sides.Right.Values + taken * sides.Right.Stride, sides.Right.Stride,
             sides.Target.Values + kept * sides.Target.Stride, sides.Target.Stride, right - taken,
             points);
    return carries;
}

/** Merges one level below the top, as a digit of a sum. @return whether there is a carry */
template <class T>
bool MergeLevel(SketchWork<T> &work, const SketchSides<T> &sides, const uint64_t level,
                const bool carries)
{
    const bool left = sides.LeftFill.Units(level);
    const bool right = sides.RightFill.Units(level);
    if (left && right)
    {
        if (carries)
        {
            work.Store(sides.Target, level);
        }
        work.Load(sides.Right.Run(level), sides.Right, 0, sides.Right.Size);
        work.Collapse(sides.Left, level);
        return true;
    }
    if (!left && !right)
    {
        if (carries)
        {
            work.Store(sides.Target, level);
        }
        return false;
    }
    const SketchColumn<T> &only = left ? sides.Left : sides.Right;
    if (carries)
    {
        work.Collapse(only, level);
        return true;
    }
    CopyRows(only.Run(level), only.Stride, sides.Target.Run(level), sides.Target.Stride, only.Size,
             only.Points);
    return false;
}

/** Merges the highest level, where runs of any weights become one. */
template <class T>
void MergeTop(SketchWork<T> &work, const SketchSides<T> &sides, const uint64_t top,
              const bool carries)
{
    uint64_t units = carries;
    for (const bool isLeft : {true, false})
    {
        const SketchColumn<T> &side = isLeft ? sides.Left : sides.Right;
        const uint64_t more = (isLeft ? sides.LeftFill : sides.RightFill).Units(top);
        if (more && units)
        {
            work.Collapse(side, top, more, units);
        }
        else if (more)
        {
            work.Load(side.Run(top), side, 0, side.Size);
        }
        units += more;
    }
    if (units)
    {
        work.Store(sides.Target, top);
    }
}

template <class T>
void MergeSketch(const SketchShape &shape, const Sketch &left, const Sketch &right,
                 const Sketch &target)
{
    SketchWork<T> work(shape.Size, shape.Top);
    ForEqual(shape.Points, left.Seen, right.Seen,
             [&](const uint64_t at, const uint64_t points)
             {
                 ForColumns<T>(at, points,
                               [&](const uint64_t start, const uint64_t lanes)
                               {
                                   const SketchSides<T> sides{
                                       ColumnAt<T>(shape, left, start, lanes),
                                       ColumnAt<T>(shape, right, start, lanes),
                                       ColumnAt<T>(shape, target, start, lanes),
                                       {uint64_t(left.Seen[at]), shape.Size, shape.Top},
                                       {uint64_t(right.Seen[at]), shape.Size, shape.Top}};
                                   bool carries = MergeBuffers(work, sides);
                                   for (uint64_t level = 0; level < shape.Top; ++level)
                                   {
                                       carries = MergeLevel(work, sides, level, carries);
                                   }
                                   MergeTop(work, sides, shape.Top, carries);
                               });
             });
    for (uint64_t i = 0; i < shape.Points; ++i)
    {
        target.Seen[i] = left.Seen[i] + right.Seen[i];
        target.Count[i] = left.Count[i] + right.Count[i];
        static_cast<T *>(target.Max)[i] =
            std::max(static_cast<T *>(left.Max)[i], static_cast<T *>(right.Max)[i]);
    }
}

} // end namespace bbflow
