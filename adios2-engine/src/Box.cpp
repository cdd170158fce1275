#include "Box.h"

#include <algorithm>

namespace bbflow
{

namespace
{

/** Elements between neighbours along each dimension. */
std::vector<size_t> Strides(const std::vector<size_t> &dims)
{
    std::vector<size_t> strides(dims.size(), 1);
    for (size_t d = dims.size(); d-- > 1;)
    {
        strides[d - 1] = strides[d] * dims[d];
    }
    return strides;
}

size_t Position(const Box &part, const Box &array, const std::vector<size_t> &strides)
{
    size_t position = 0;
    for (size_t d = 0; d < strides.size(); ++d)
    {
        position += (part.Start[d] - array.Start[d]) * strides[d];
    }
    return position;
}

} // end empty namespace

size_t ElementsOf(const std::vector<size_t> &dims)
{
    size_t elements = 1;
    for (const size_t length : dims)
    {
        elements *= length;
    }
    return elements;
}

size_t Box::Elements() const { return ElementsOf(Count); }

std::optional<Box> Overlap(const Box &a, const Box &b)
{
    const auto begin = [&](const size_t d) { return std::max(a.Start[d], b.Start[d]); };
    const auto end = [&](const size_t d)
    { return std::min(a.Start[d] + a.Count[d], b.Start[d] + b.Count[d]); };
    const size_t rank = a.Start.size();
    for (size_t d = 0; d < rank; ++d)
    {
        if (begin(d) >= end(d))
        {
            return std::nullopt;
        }
    }
    Box common{a.Start, a.Count};
    for (size_t d = 0; d < rank; ++d)
    {
        common.Start[d] = begin(d);
        common.Count[d] = end(d) - begin(d);
    }
    return common;
}

Runs::Runs(const Box &part, const Box &source, const Box &target)
{
    std::vector<size_t> sourceStrides = Strides(source.Count);
    std::vector<size_t> targetStrides = Strides(target.Count);
    m_Source = Position(part, source, sourceStrides);
    m_Target = Position(part, target, targetStrides);
    size_t d = part.Count.size();
    bool isWhole = true; // the inner dimensions are whole in both arrays
    while (d > 0 && isWhole)
    {
        --d;
        m_Length *= part.Count[d];
        isWhole = part.Count[d] == source.Count[d] && part.Count[d] == target.Count[d];
    }
    m_Counts.assign(part.Count.begin(), part.Count.begin() + d);
    sourceStrides.resize(d);
    targetStrides.resize(d);
    m_SourceStrides = std::move(sourceStrides);
    m_TargetStrides = std::move(targetStrides);
}

size_t Runs::SourceEnd() const
{
    size_t end = m_Source + m_Length;
    for (size_t d = 0; d < m_Counts.size(); ++d)
    {
        end += (m_Counts[d] - 1) * m_SourceStrides[d];
    }
    return end;
}

void Runs::Copy(const char *source, char *target, const size_t elementBytes) const
{
    CopyFrom(0, source, target + m_Target * elementBytes, elementBytes);
}

void Runs::CopyFrom(const size_t dimension, const char *source, char *target,
                    const size_t elementBytes) const
{
    if (dimension == m_Counts.size())
    {
        std::memcpy(target, source, m_Length * elementBytes);
        return;
    }
    const size_t sourceStep = m_SourceStrides[dimension] * elementBytes;
    const size_t targetStep = m_TargetStrides[dimension] * elementBytes;
    for (size_t i = 0; i < m_Counts[dimension]; ++i)
    {
        CopyFrom(dimension + 1, source + i * sourceStep, target + i * targetStep, elementBytes);
    }
}

} // end namespace bbflow
