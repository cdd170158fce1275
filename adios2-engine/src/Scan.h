#pragma once

#include "Extremes.h"
#include "MinMax.h"

#include <memory>
#include <type_traits>

namespace bbflow
{

/** Looks at a block's bytes as they pass by on their way to the node. */
class Scan
{
public:
    virtual ~Scan() = default;

    /** Sees the next bytes, or some of them again; whole values only. */
    virtual void See(const char *bytes, size_t n) = 0;

    /** What it found. */
    virtual Extremes Found() const = 0;
};

/** For types without an order, and bytes that were seen before. */
class NoScan final : public Scan
{
public:
    void See(const char *, size_t) override {}
    Extremes Found() const override { return ExtremesOf(1.0, 0.0); }
};

/** Finds the smallest and the largest value. */
template <class T>
class RangeScan final : public Scan
{
public:
    void See(const char *bytes, const size_t n) override
    {
        Widen(m_Range, reinterpret_cast<const T *>(bytes), n / sizeof(T));
    }

    Extremes Found() const override
    {
        return m_Range.Empty() ? ExtremesOf<T>(1, 0) : ExtremesOf<T>(m_Range.Min, m_Range.Max);
    }

private:
    Range<T> m_Range;
};

/** The type in which a range is kept; void where there is no order. */
template <class T>
using Ranged = std::conditional_t<
    std::is_same_v<T, char>, int8_t,
    std::conditional_t<std::is_same_v<T, long double> || !std::is_arithmetic_v<T>, void, T>>;

/** Gives what looks at blocks of a type. */
template <class T>
std::unique_ptr<Scan> MakeScan()
{
    if constexpr (std::is_void_v<Ranged<T>>)
    {
        return std::make_unique<NoScan>();
    }
    else
    {
        return std::make_unique<RangeScan<Ranged<T>>>();
    }
}

} // end namespace bbflow
