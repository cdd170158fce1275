#include "OpenStep.h"

#include "Arena.h"

#include <algorithm>

namespace bbflow
{

Value::Array OpenStep::Records(const std::string &file) const
{
    Value::Array records;
    for (const Block &block : Blocks)
    {
        Value::Map record = block.Record;
        if (block.Bytes > 0)
        {
            record.emplace_back("offset", uint64_t{block.Offset});
            record.emplace_back("bytes", uint64_t{block.Bytes});
            block.Look->Describe(record);
        }
        if (block.InFile)
        {
            record.emplace_back("file", file);
        }
        records.emplace_back(std::move(record));
    }
    return records;
}

size_t OpenStep::WaitingBytes() const
{
    size_t bytes = 0;
    for (const Block &block : Blocks)
    {
        bytes += block.Is == Block::State::Waiting ? Arena::Padded(block.Bytes) : 0;
    }
    return bytes;
}

size_t OpenStep::PoolBytes() const
{
    size_t bytes = 0;
    for (const Block &block : Blocks)
    {
        bytes += block.Is != Block::State::Waiting && !block.InFile ? Arena::Padded(block.Bytes) : 0;
    }
    return bytes;
}

bool OpenStep::CanLandAgain() const
{
    return std::all_of(Blocks.begin(), Blocks.end(),
                       [](const Block &block) {
                           return block.Bytes == 0 || block.InFile || block.Source != nullptr ||
                                  block.Is == Block::State::Waiting;
                       });
}

} // end namespace bbflow
