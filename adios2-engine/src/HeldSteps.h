#pragma once

#include "FoldPlan.h"
#include "OpenStep.h"
#include "ToldLayouts.h"

#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace bbflow
{

/** Steps that a rank has folded into states in its own memory, and that have not landed: nothing is
 *  known of them on any node. */
class HeldSteps
{
public:
    /** @param device lets GPUs work; it lives longer */
    explicit HeldSteps(DeviceQueue &device) : m_Device(device) {}

    bool IsEmpty() const { return m_Steps.empty(); }
    size_t First() const { return m_First; }
    size_t Last() const { return m_First + m_Steps.size() - 1; }

    /** When the first of them was ended. */
    std::chrono::steady_clock::time_point Began() const { return m_Began; }

    /** Copies a block that the caller may overwrite; it has its copy then. */
    void Keep(Block &block);

    /** Copies a block of a GPU's memory to where it is folded: there, which is under way then, or
     *  here.
     *  @throws std::runtime_error if it can't be copied */
    void KeepFromDevice(const FoldPlan &plan, Block &block);

    /** Whether a plan knows what becomes of all arrays of a step. */
    bool AreKnown(const FoldPlan &plan, const std::vector<Block> &blocks) const;

    /** Keeps what a step that lands as it is has of the arrays that stay as they are. */
    void KeepSteady(const FoldPlan &plan, const std::vector<Block> &blocks);

    /** Leaves out the blocks that aren't wanted, and of those that a step has several times all but
     *  the last, as readers see them. */
    static void LeaveOut(const FoldPlan &plan, std::vector<Block> &blocks);

    /** Whether a step has the same blocks as those that are held. */
    bool IsAlike(const std::vector<Block> &blocks) const;

    /** Takes in the step that comes next.
     *  @param plan has all of its arrays
     *  @throws std::bad_alloc if there is no memory for it */
    void Add(const FoldPlan &plan, size_t step, std::vector<Block> blocks, Value::Array attributes);

    /** Whether they take less room as they are: so few that their blocks are still here. */
    bool AreSmaller() const;

    /** Returns the first of them as it is, and forgets it. */
    std::vector<Block> TakeFirst();

    /** Returns what lands: the states as blocks of the last step, in memory that stays here until
     *  Clear, and its single values. */
    std::vector<Block> Land();

    /** What a commit says of the steps before the last one (FORMAT.md, "Plan").
     *  @param first attributes of the first step, if they are others by now */
    Value::Map Describe(ToldLayouts &layouts, const Value::Array *first) const;

    /** Attributes of the first and the last step. */
    const Value::Array &FirstAttributes() const { return m_Steps.front().Attributes; }
    const Value::Array &Attributes() const { return m_Steps.back().Attributes; }

    /** Forgets them; the memory is used again. */
    void Clear();

private:
    struct Free
    {
        void operator()(char *memory) const { std::free(memory); }
    };
    struct State
    {
        FoldedVariable Variable;
        size_t Points;
        StatePlaces Places;
        std::unique_ptr<char[], Free> Memory;
        /** The memory, if it is on a GPU. */
        std::shared_ptr<char> OnDevice;
        bool IsBegun = false;
        /** What is not in it yet, oldest first. */
        std::deque<Block> Blocks;

        size_t BlockBytes() const { return Points * Variable.ItemBytes; }
    };
    struct Step
    {
        Value::Array Values, Attributes;
    };
    struct Steady
    {
        BlockForm Form;
        std::string Bytes;
    };
    DeviceQueue &m_Device;
    /** The blocks that each step has; arrays without their bytes. */
    std::vector<Block> m_Like;
    /** Of the arrays, in their order. */
    std::vector<State> m_States;
    std::deque<Step> m_Steps;
    size_t m_First = 0;
    /** So many steps are in memory before the first are folded. */
    size_t m_Most = 0;
    std::chrono::steady_clock::time_point m_Began;
    /** Memory for blocks that is used again, by its bytes. */
    std::multimap<size_t, std::unique_ptr<char[]>> m_Spare;
    /** Of arrays that stay as they are, what the analysis has seen last. */
    std::vector<Steady> m_Steady;

    void Begin(const FoldPlan &plan, std::vector<Block> &blocks);
    size_t MostAsTheyAre() const;
    void ReadFromDevice(Block &block);
    std::unique_ptr<char[]> Memory(size_t bytes);
    void Fold(State &state);
    void FoldOnHost(State &state);
    void FoldOnDevice(State &state);
};

} // end namespace bbflow
