#pragma once

#include "Pool.h"
#include "Scan.h"

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

    /** What FORMAT.md names, without its place. */
    Value::Map Record;
    /** 0: the value is in the record. */
    size_t Bytes = 0;
    /** Memory that holds it now; nullptr if there is none any more. */
    const char *Source = nullptr;
    std::unique_ptr<Scan> Look;
    State Is = State::Waiting;
    bool InFile = false;
    /** Its place in the pool or the file. */
    size_t Offset = 0;
};

/** What a rank has Put in the step that it is in. */
class OpenStep
{
public:
    size_t Number = 0;
    std::vector<Block> Blocks;

    /** The blocks as a commit names them. @param file path of the spilled ones */
    Value::Array Records(const std::string &file) const;

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
