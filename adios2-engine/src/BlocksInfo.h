#pragma once

#include "StepContents.h"

#include <adios2.h>

#include <array>
#include <deque>
#include <memory>
#include <string>

namespace bbflow
{

/** What ADIOS2's Engine::BlocksInfo asks for. The answers point into this object and into the
 * variable: both must live as long as an answer is used. */
class BlocksInfo
{
public:
    /** @param variable as the current step has it */
    std::unique_ptr<adios2::MinVarInfo> Describe(const StoredVariable &variable, size_t step);

    void Clear();

private:
    using Bytes = std::array<char, sizeof(adios2::PrimitiveStdtypeUnion)>;
    std::deque<Bytes> m_Singles;
    std::deque<const char *> m_Texts;

    template <class T>
    void SetValues(const StoredBlock &block, adios2::MinBlockInfo &info);
};

} // end namespace bbflow
