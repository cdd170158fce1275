#pragma once

#include "BlocksInfo.h"
#include "IoVariables.h"
#include "Program.h"
#include "Selection.h"
#include "StreamReader.h"

#include <adios2.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace bbflow
{

/** The engine of a program that reads: shows the steps of a stream in their order, while they are
 * written or as long as they are kept. */
class Reader
{
public:
    /** @throws std::runtime_error if the stream doesn't come in time */
    explicit Reader(const Program &program);

    adios2::StepStatus BeginStep(adios2::StepMode mode, float timeoutSeconds);
    size_t CurrentStep() const { return m_Step < 0 ? 0 : static_cast<size_t>(m_Step); }
    void EndStep();
    void PerformGets();
    void Close();

    /** Blocks of the current step; nullptr if it has no such variable. */
    adios2::MinVarInfo *MinBlocksInfo(const std::string &name) const;

    /** @param selection of the variable, as the program has made it */
    template <class T>
    void Get(const adios2::Variable<T> &variable, T *values, const Selection &selection, bool sync);

private:
    using Variables = std::map<std::string, StoredVariable>;

    adios2::IO m_IO;
    const bool m_IsColumnMajor;
    StreamReader m_Stream;
    IoVariables m_Shown;
    int64_t m_Step = -1;
    bool m_InStep = false;
    Variables m_Contents;            // of the step
    Variables m_Reversed;            // the same for a column-major program
    mutable BlocksInfo m_BlocksInfo; // what MinBlocksInfo's answers point to
    std::vector<std::function<void()>> m_Deferred;
    uint64_t m_Holes = 0; // elements that the step's Gets left as they were

    const Variables &Contents() const { return m_IsColumnMajor ? m_Reversed : m_Contents; }
    const StoredVariable &Find(const std::string &name, const std::string &type) const;
    void ShowAttributes(const Value::Array &attributes);
    void ShowHoles(uint64_t elements);
};

} // end namespace bbflow
