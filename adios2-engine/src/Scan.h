#pragma once

#include "Extremes.h"
#include "MinMax.h"

#include <algorithm>
#include <memory>
#include <optional>
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

    /** Kinds of values that a GPU can look at: i1 i2 i4 i8 u1 u2 u4 u8 f4 f8. */
    static constexpr size_t Kinds = 10;

    /** The kind of its values; nothing if only the CPU can look at them, or nothing can. */
    virtual std::optional<size_t> Kind() const { return std::nullopt; }

    /** Takes in what a GPU has found: pairs of a smallest and a largest value of its type. */
    virtual void Add(const char *, size_t) {}
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

    std::optional<size_t> Kind() const override
    {
        constexpr size_t bytes = sizeof(T);
        constexpr size_t size = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
        return std::is_floating_point_v<T> ? 6 + size : std::is_unsigned_v<T> ? 4 + size : size;
    }

    void Add(const char *pairs, const size_t n) override
    {
        const auto ranges = reinterpret_cast<const Range<T> *>(pairs);
        static_assert(sizeof(*ranges) == 2 * sizeof(T));
        for (size_t i = 0; i < n; ++i)
        {
            m_Range.Min = std::min(m_Range.Min, ranges[i].Min);
            m_Range.Max = std::max(m_Range.Max, ranges[i].Max);
        }
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

/** Returns what looks at blocks of a type. */
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
