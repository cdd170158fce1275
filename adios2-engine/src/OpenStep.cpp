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

size_t OpenStep::BytesThatAre(const Block::State state) const
{
    size_t bytes = 0;
    for (const Block &block : Blocks)
    {
        bytes += block.Is == state ? Arena::Padded(block.Bytes) : 0;
    }
    return bytes;
}

void OpenStep::LosePlaces(const Pool *pool)
{
    for (Block &block : Blocks)
    {
        const bool isLanded = block.Is == Block::State::Landed;
        if (block.Bytes > 0 && !block.InFile && (isLanded || block.Is == Block::State::Placed))
        {
            if (isLanded && pool != nullptr)
            {
                block.Source = pool->At(block.Offset);
            }
            block.Is = Block::State::Lost;
        }
    }
}

bool OpenStep::CanLandAgain() const
{
    return std::none_of(Blocks.begin(), Blocks.end(), [](const Block &block)
                        { return block.Is == Block::State::Lost && block.Source == nullptr; });
}

} // end namespace bbflow
