#pragma once

#include "Value.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace bbflow
{

/** What doesn't change of a stored block from step to step (FORMAT.md, "Layout"). */
struct StoredForm
{
    std::string Name, Type, Kind;
    std::vector<size_t> Shape, Start, Count;
    size_t Rank;
    /** Which of the step's sources, or of its files if it is spilled. */
    size_t Source;
    size_t Place;
    size_t Bytes;
    bool IsSpilled;
    /** Whether the values aren't there, but in a state. */
    bool IsFolded;
};

using StoredLayout = std::vector<StoredForm>;

/** What one node has of a step. */
struct StepPart
{
    int64_t Number = -1;
    /** How many ranks have a part in it there. */
    size_t Ranks = 0;
    std::shared_ptr<const StoredLayout> Layout{};
    std::string Sources{}, Extremes{};
    Value::Array Files{}, Values{}, Attributes{};

    /** First byte in the pool of a source. @throws std::out_of_range if there is none */
    size_t Source(size_t number) const;

    /** Smallest or largest value of a block; nil if they are not known.
     *  @param number of its form
     *  @param isLargest which of them */
    Value Extreme(size_t number, bool isLargest) const;
};

/** Takes steps out of the `watch` replies of one connection, over which each layout comes once. */
class StepParts
{
public:
    /** @throws std::runtime_error if the reply is damaged */
    std::vector<StepPart> Take(const Value &reply);

private:
    std::map<int64_t, std::shared_ptr<const StoredLayout>> m_Layouts;
};

} // end namespace bbflow
