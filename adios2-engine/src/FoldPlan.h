#pragma once

#include "BlockForm.h"
#include "Value.h"

#include "Histogram.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace bbflow
{

/** Where a histogram's values belong, as the analysis has found it. */
struct HistogramBins
{
    std::vector<double> Breaks;
    std::vector<int32_t> Cells;
    /** Points into them. */
    BbflowBins Table{};
};

/** How the blocks of a variable are folded. */
struct FoldedVariable
{
    std::string Name, Type;
    /** The kernel's code of the type. */
    int Code = -1;
    size_t ItemBytes = 0;
    /** What the states have (FORMAT.md, "Plan"): the kernel's i-th accumulator by bit i, and a
     *  histogram. */
    uint64_t Fields = 0;
    /** The value that stands for 'missing', as it lies in memory; empty for none. */
    std::string Fill;
    /** How its bins are found; null without one. */
    std::shared_ptr<const HistogramBins> Histogram;
};

/** Where each accumulator of a state begins in its block, and what the block takes. */
struct StatePlaces
{
    std::vector<std::optional<size_t>> Begins;
    /** Of the histogram's counts. */
    size_t Counts = 0;
    size_t Bytes = 0;
};

/** Lays a state of some points out (FORMAT.md, "Plan"). */
StatePlaces PlacesOf(const FoldedVariable &variable, size_t points);

/** What an analysis lets ranks fold, and up to where (FORMAT.md, "Plan"). */
class FoldPlan
{
public:
    /** @return nothing if there is no plan, or one that this engine can't follow
     *  @throws std::runtime_error if it is damaged */
    static std::optional<FoldPlan> Read(const Value &plan);

    /** How much memory of a GPU states and blocks may take there; 0: all are folded by the CPU. */
    size_t DeviceBytes() const { return m_DeviceBytes; }

    /** Whether blocks of a step may be folded. */
    bool Covers(size_t step) const;

    /** Whether the steps up to this one land together. */
    bool EndsAt(size_t step) const;

    /** The last of the steps that land together with one that the plan covers. */
    size_t EndOf(size_t step) const;

    /** Name of the variable that tells the time; empty if the steps' numbers do. */
    const std::string &TimeName() const { return m_TimeName; }

    /** Whether a step comes when the plan says. */
    bool IsDue(size_t step, double time) const;

    /** Whether blocks of a variable aren't wanted in steps that are folded. */
    bool Leaves(const std::string &name) const;

    /** Whether the analysis must see any change of what isn't wanted otherwise. */
    bool IsSteady(const std::string &name) const;

    /** How blocks of a form are folded; nullptr if they aren't. */
    const FoldedVariable *Find(const BlockForm &form) const;

private:
    std::string m_TimeName;
    size_t m_First = 0, m_DeviceBytes = 0;
    double m_Begins = 0.0, m_Interval = 0.0, m_Tolerance = 0.0;
    /** Last steps of what lands together, ascending. */
    std::vector<uint64_t> m_Ends;
    std::vector<FoldedVariable> m_Variables;
    /** Further arrays that must land as they are, if they come. */
    std::vector<std::string> m_Wanted;
    /** Those of which the first steps' values count. */
    std::vector<std::string> m_Steady;
};

} // end namespace bbflow
