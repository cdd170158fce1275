#pragma once

#include "Box.h"
#include "StepPart.h"
#include "Value.h"

#include <map>
#include <string>
#include <vector>

namespace bbflow
{

/** One block of a step. */
struct StoredBlock
{
    /** Which node holds it: its place in the contact file. */
    size_t Node;
    size_t Rank;
    /** Where its elements belong in the variable's array; starts at zero in a local array. */
    Box Place;
    /** Where its bytes are: in the node's pool or in `File`. */
    size_t Offset = 0;
    size_t Bytes = 0;
    std::string File{};
    /** A single value; nil for arrays. */
    Value Single{};
    /** Smallest and largest value; nil if they are not known. */
    Value Min{}, Max{};
};

/** A variable as one step has it. */
struct StoredVariable
{
    /** ADIOS2's names, as FORMAT.md has them. */
    std::string Type, Kind;
    /** Of the array that a reader sees: a joined array's full shape, a local value's ranks; empty
     * for local arrays and global values. */
    std::vector<size_t> Shape;
    /** By rank, each rank's in the order of its Puts: a block's number is its place here. */
    std::vector<StoredBlock> Blocks;

    bool IsSingle() const;
    bool IsLocalArray() const { return Kind == "LocalArray"; }

    /** Whether a reader sees an array with a global shape. */
    bool IsGlobalArray() const;
};

/** The variables of a step by name, made of the parts that the nodes have.
 *  @param parts what each node has of the step; nullptr where it has none
 *  @param writers ranks of the stream
 *  @throws std::runtime_error if a part is damaged */
std::map<std::string, StoredVariable> ReadStep(const std::vector<const StepPart *> &parts,
                                               size_t writers);

} // end namespace bbflow
