#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

namespace bbflow
{

/** A rectangular part of an array. */
struct Box
{
    std::vector<size_t> Start;
    std::vector<size_t> Count;

    size_t Elements() const;
};

/** How many elements an array of these dimensions has; one if there are none. */
size_t ElementsOf(const std::vector<size_t> &dims);

/** What two boxes of the same rank have in common; nothing if that is empty. */
std::optional<Box> Overlap(const Box &a, const Box &b);

/** The elements of a box as they lie in two arrays: runs that are contiguous in both. Each array
 * is given by the box that it holds. Its start may be below zero, as an unsigned number wraps. */
class Runs
{
public:
    Runs(const Box &part, const Box &source, const Box &target);

    /** Elements of each run. */
    size_t Length() const { return m_Length; }
    size_t Count() const { return ElementsOf(m_Counts); }

    /** Position of the first run in each array, and of the source's last element; in elements. */
    size_t SourceBegin() const { return m_Source; }
    size_t TargetBegin() const { return m_Target; }
    size_t SourceEnd() const;

    /** Copies all runs.
     *  @param source where element number `SourceBegin()` of the source array is */
    void Copy(const char *source, char *target, size_t elementBytes) const;

    /** Visits all runs, in groups of those that are equally far from each other in the source.
     *  @param tell gets position of the first run, runs, and elements from one to the next */
    template <class Tell>
    void EachGroup(Tell tell) const
    {
        TellFrom(0, m_Source, tell);
    }

private:
    size_t m_Length = 1;
    size_t m_Source = 0;
    size_t m_Target = 0;
    // The dimensions that runs are repeated along, outermost first.
    std::vector<size_t> m_Counts;
    std::vector<size_t> m_SourceStrides;
    std::vector<size_t> m_TargetStrides;

    template <class Tell>
    void TellFrom(size_t dimension, size_t source, Tell &tell) const
    {
        if (dimension + 1 >= m_Counts.size())
        {
            const bool isOne = m_Counts.empty();
            tell(source, isOne ? 1 : m_Counts.back(), isOne ? m_Length : m_SourceStrides.back());
            return;
        }
        for (size_t i = 0; i < m_Counts[dimension]; ++i)
        {
            TellFrom(dimension + 1, source + i * m_SourceStrides[dimension], tell);
        }
    }

    void CopyFrom(size_t dimension, const char *source, char *target, size_t elementBytes) const;
};

} // end namespace bbflow
