#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace bbflow
{

/** What a program has selected of a variable, whatever version of ADIOS2 it has told it to. */
struct Selection
{
    /** The box `Start`, `Count`; else everything. */
    bool IsBox = false;
    std::vector<size_t> Start, Count;
    std::optional<size_t> Block;
    /** Where in the program's memory the elements lie; else it holds nothing but them. */
    bool HasMemory = false;
    std::vector<size_t> MemoryStart, MemoryCount;
    size_t StepStart = 0, StepCount = 1;
};

/** Turns round the order of all dimensions: column-major to row-major and back. */
Selection Reversed(Selection selection);

} // end namespace bbflow
