#include "StepReader.h"

#include <stdexcept>

namespace bbflow
{

namespace
{

std::string Show(const std::vector<size_t> &dims)
{
    std::string text;
    for (const size_t length : dims)
    {
        text += (text.empty() ? "" : ", ") + std::to_string(length);
    }
    return "{" + text + "}";
}

} // end empty namespace

void StepReader::Refuse(const std::string &reason) const
{
    throw std::invalid_argument("bbflow: Get of " + m_Name + " in step " + std::to_string(m_Step) +
                                ": " + reason);
}

const StoredBlock &StepReader::Block(const Selection &selection) const
{
    const size_t number = selection.Block.value_or(0);
    if (number >= m_Variable.Blocks.size())
    {
        Refuse("block " + std::to_string(number) + " was selected, but there are " +
               std::to_string(m_Variable.Blocks.size()) + " blocks");
    }
    return m_Variable.Blocks[number];
}

const Value &StepReader::Single(const Selection &selection) const
{
    return Block(selection).Single;
}

Box StepReader::GlobalBox(const Selection &selection) const
{
    const std::vector<size_t> &shape = m_Variable.Shape;
    if (!selection.IsBox)
    {
        return {std::vector<size_t>(shape.size(), 0), shape};
    }
    Box box{selection.Start, selection.Count};
    bool fits = box.Start.size() == shape.size() && box.Count.size() == shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d)
    {
        fits = box.Start[d] <= shape[d] && box.Count[d] <= shape[d] - box.Start[d];
    }
    if (!fits)
    {
        Refuse("the selection from " + Show(box.Start) + " with count " + Show(box.Count) +
               " is not inside of the shape " + Show(shape));
    }
    return box;
}

Box StepReader::BoxInBlock(const Selection &selection, const StoredBlock &block) const
{
    const bool isPart = selection.IsBox;
    Box box = block.Place;
    if (!isPart)
    {
        return box;
    }
    bool fits = selection.Start.size() == box.Start.size();
    for (size_t d = 0; fits && d < box.Start.size(); ++d)
    {
        const size_t start = selection.Start[d], count = selection.Count[d];
        fits = start <= box.Count[d] && count <= box.Count[d] - start;
        box.Start[d] += start;
        box.Count[d] = count;
    }
    if (!fits)
    {
        Refuse("the selection from " + Show(selection.Start) + " with count " +
               Show(selection.Count) + " is not inside of the block, which has " +
               Show(block.Place.Count));
    }
    return box;
}

Box StepReader::MemoryOf(const Selection &selection, const Box &box) const
{
    if (!selection.HasMemory)
    {
        return box;
    }
    Box memory{box.Start, selection.MemoryCount};
    if (memory.Count.size() != box.Count.size())
    {
        Refuse("the memory selection has another number of dimensions");
    }
    for (size_t d = 0; d < box.Start.size(); ++d)
    {
        memory.Start[d] -= selection.MemoryStart[d]; // may wrap: see Runs
    }
    return memory;
}

void StepReader::Copy(const StoredBlock &block, const Box &part, const Box &memory,
                      const size_t elementBytes, char *target) const
{
    if (block.Bytes != block.Place.Elements() * elementBytes)
    {
        throw std::runtime_error("bbflow: a block of " + m_Name + " has " +
                                 std::to_string(block.Bytes) + " bytes, its dimensions " +
                                 Show(block.Place.Count) + " need " +
                                 std::to_string(block.Place.Elements() * elementBytes));
    }
    m_Stream.Copy(m_Step, block, Runs(part, block.Place, memory), elementBytes, target);
}

} // end namespace bbflow
