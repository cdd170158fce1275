#pragma once

#include "Selection.h"
#include "StepContents.h"
#include "StreamReader.h"
#include "Uncovered.h"
#include "ValueAs.h"

#include <string>

namespace bbflow
{

/** Serves Gets of one complete step. */
class StepReader
{
public:
    StepReader(StreamReader &stream, int64_t step, const StoredVariable &variable,
               const std::string &name)
    : m_Stream(stream), m_Step(step), m_Variable(variable), m_Name(name)
    {
    }

    /** Returns a global value, or a text.
     *  @throws std::invalid_argument if the selection asks for a block that isn't there */
    const Value &Single(const Selection &selection) const;

    /** Copies what is selected of an array; gives how many elements no block covers: those are left
     * as they were.
     *  @throws std::invalid_argument if the selection doesn't fit the variable */
    template <class T>
    size_t Read(const Selection &selection, T *values) const;

private:
    StreamReader &m_Stream;
    int64_t m_Step;
    const StoredVariable &m_Variable;
    const std::string &m_Name;

    const StoredBlock &Block(const Selection &selection) const;
    Box GlobalBox(const Selection &selection) const;
    Box BoxInBlock(const Selection &selection, const StoredBlock &block) const;
    Box MemoryOf(const Selection &selection, const Box &box) const;
    void Copy(const StoredBlock &block, const Box &part, const Box &memory, size_t elementBytes,
              char *target) const;
    [[noreturn]] void Refuse(const std::string &reason) const;
};

template <class T>
size_t StepReader::Read(const Selection &selection, T *values) const
{
    const bool isOneBlock = m_Variable.IsLocalArray() || (selection.Block && !selection.IsBox);
    const StoredBlock *only = isOneBlock ? &Block(selection) : nullptr;
    const Box box = isOneBlock ? BoxInBlock(selection, *only) : GlobalBox(selection);
    const Box memory = MemoryOf(selection, box);
    Uncovered holes(box);
    for (const StoredBlock &block : m_Variable.Blocks)
    {
        const std::optional<Box> part =
            only && only != &block ? std::nullopt : Overlap(block.Place, box);
        if (!part)
        {
            continue;
        }
        holes.Cover(*part);
        if (block.Single.IsNil())
        {
            Copy(block, *part, memory, sizeof(T), reinterpret_cast<char *>(values));
        }
        else
        {
            values[Runs(*part, block.Place, memory).TargetBegin()] = ValueAs<T>(block.Single);
        }
    }
    return holes.Elements();
}

} // end namespace bbflow
