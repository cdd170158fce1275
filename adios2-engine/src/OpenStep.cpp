#include "OpenStep.h"

#include <algorithm>

namespace bbflow
{

StepContent OpenStep::Describe(const Arena &arena, const std::string &file) const
{
    StepContent content;
    std::vector<size_t> sources;
    for (const Block &block : Blocks)
    {
        Spot spot{0, block.InFile ? block.Offset : 0};
        Extremes found = ExtremesOf(1.0, 0.0);
        if (block.Bytes == 0)
        {
            content.Values.push_back(block.Single);
        }
        else if (!block.InFile)
        {
            const size_t source = arena.ExtentAt(block.Offset).first;
            const auto at = std::find(sources.begin(), sources.end(), source);
            spot = {static_cast<size_t>(at - sources.begin()), block.Offset - source};
            if (at == sources.end())
            {
                sources.push_back(source);
            }
        }
        if (block.Bytes > 0)
        {
            found = block.Look->Found();
        }
        content.Extremes.Bytes.append(found.data(), found.size());
        content.Spots.push_back(spot);
        if (block.InFile && content.Files.empty())
        {
            content.Files.emplace_back(file);
        }
    }
    content.Sources.Bytes.assign(reinterpret_cast<const char *>(sources.data()),
                                 sources.size() * sizeof(size_t));
    return content;
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
                block.OnDevice.clear();
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
