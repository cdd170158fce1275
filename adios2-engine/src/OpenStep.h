#pragma once

#include "Arena.h"
#include "BlockForm.h"
#include "DeviceQueue.h"
#include "Pool.h"
#include "Scan.h"
#include "Value.h"

#include <memory>
#include <string>
#include <vector>

namespace bbflow
{

/** One Put. */
struct Block
{
    enum class State
    {
        /** Its memory is the caller's until PerformPuts or EndStep. */
        Waiting,
        /** It has a place, where it is not or not whole. */
        Placed,
        Landed,
        /** Its node was lost, and its place with it. */
        Lost
    };

    BlockForm Form;
    /** The value of a block without bytes. */
    Value Single;
    size_t Bytes = 0;
    /** Memory that holds it now; nullptr if there is none any more. */
    const char *Source = nullptr;
    /** The same in a GPU's memory; empty if it is the host's. */
    std::vector<DeviceRows> OnDevice;
    /** The same, if it is a copy of the block's own. */
    std::unique_ptr<char[]> Own;
    /** The same, if it is a copy of the block's own on the GPU. */
    std::shared_ptr<char> OwnOnDevice;
    std::unique_ptr<Scan> Look;
    State Is = State::Waiting;
    bool InFile = false;
    /** Its place in the pool or the file. */
    size_t Offset = 0;
    /** 0 if it has the values themselves; -1 if they are in a state that comes with a later step;
     *  else it is a state, and these are its accumulators (FORMAT.md, "Plan"). */
    int64_t Folded = 0;
};

/** Where a block lies: which of its rank's extents, or of its files, and the first byte there. */
struct Spot
{
    size_t Extent = 0;
    size_t Place = 0;
};

/** What changes of a step from one to the next (FORMAT.md, "Layout"), and where its blocks lie. */
struct StepContent
{
    std::vector<Spot> Spots;
    Value::Binary Sources;
    Value::Array Files;
    Value::Array Values;
    Value::Binary Extremes;
};

/** What a rank has Put in the step that it is in. */
class OpenStep
{
public:
    size_t Number = 0;
    std::vector<Block> Blocks;

    /** What a commit says of the blocks.
     *  @param arena where those in the pool lie
     *  @param file path of the spilled ones */
    StepContent Describe(const Arena &arena, const std::string &file) const;

    /** Bytes with padding of all blocks that are in a state. */
    size_t BytesThatAre(Block::State state) const;

    /** Takes their places from all blocks in the pool.
     *  @param pool where the landed ones can still be read; nullptr if nowhere */
    void LosePlaces(const Pool *pool);

    /** Whether the memory of all lost blocks is still there. */
    bool CanLandAgain() const;

    /** Takes in that memory has changed its content: that of the blocks for which it holds. */
    template <class Condition>
    void Forget(Condition condition)
    {
        for (Block &block : Blocks)
        {
            if (block.Is == Block::State::Landed && condition(block.Source))
            {
                block.Source = nullptr;
            }
        }
    }
};

} // end namespace bbflow
