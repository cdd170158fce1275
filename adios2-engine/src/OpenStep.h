#pragma once

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
        Waiting,
        Placed,
        Landed
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
    std::vector<Block> Blocks;

    /** The blocks as a commit names them. @param file path of the spilled ones */
    Value::Array Records(const std::string &file) const;

    /** Bytes with padding that blocks without a place will take up. */
    size_t WaitingBytes() const;

    /** Bytes with padding of those that have a place in the pool. */
    size_t PoolBytes() const;

    /** Whether all blocks of the pool could be landed again. */
    bool CanLandAgain() const;
};

} // end namespace bbflow
