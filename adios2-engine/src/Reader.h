#pragma once

#include "BlocksInfo.h"
#include "IoVariables.h"
#include "StreamReader.h"

#include <adios2.h>
#include <adios2/common/Selection.h>
#include <adios2/plugin/PluginEngineInterface.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace bbflow
{

/** The engine of a program that reads: shows the steps of a stream in their order, while they are
 * written or as long as they are kept. */
class Reader : public adios2::plugin::PluginEngineInterface
{
public:
    /** @throws std::runtime_error if the stream doesn't come in time */
    Reader(adios2::IO io, const std::string &name, adios2::Mode mode, const Parameters &parameters);

    adios2::StepStatus BeginStep(adios2::StepMode mode, float timeoutSeconds = -1.0f) override;
    size_t CurrentStep() const override { return m_Step < 0 ? 0 : static_cast<size_t>(m_Step); }
    void EndStep() override;
    void PerformGets() override;
    void DoClose(int transportIndex = -1) override;

    /** Blocks of the current step, whatever step is asked for. */
    adios2::MinVarInfo *MinBlocksInfo(const std::string &name, size_t step) const override;

#define declare(T)                                                                                 \
    void DoGetSync(adios2::Variable<T> variable, T *values) override;                              \
    void DoGetDeferred(adios2::Variable<T> variable, T *values) override;                          \
    void DoGetSync(adios2::Variable<T> variable, T *values,                                        \
                   const adios2::core::Selection &selection) override;                             \
    void DoGetDeferred(adios2::Variable<T> variable, T *values,                                    \
                       const adios2::core::Selection &selection) override;
    ADIOS2_FOREACH_STDTYPE_1ARG(declare)
#undef declare

private:
    StreamReader m_Stream;
    IoVariables m_Shown;
    int64_t m_Step = -1;
    bool m_InStep = false;
    std::map<std::string, StoredVariable> m_Contents; // of the step
    mutable BlocksInfo m_BlocksInfo;                  // what MinBlocksInfo's answers point to
    std::vector<std::function<void()>> m_Deferred;
    uint64_t m_Holes = 0; // elements that the step's Gets left as they were

    template <class T>
    void Get(const adios2::Variable<T> &variable, T *values,
             const adios2::core::Selection &selection, bool sync);
    const StoredVariable &Find(const std::string &name, const std::string &type) const;
    void ShowAttributes(const Value::Array &attributes);
    void ShowHoles(uint64_t elements);
};

} // end namespace bbflow
