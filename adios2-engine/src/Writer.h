#pragma once

#include "Attributes.h"
#include "Session.h"

#include <adios2.h>
#include <adios2/plugin/PluginEngineInterface.h>

#include <string>
#include <vector>

#if ADIOS2_PLUGIN_ENGINE_INTERFACE != 2
#error "bbflow needs ADIOS2 2.12 with plugin engine interface 2"
#endif

namespace bbflow
{

/** The engine that an application selects: lands each step on a BB node. */
class Writer : public adios2::plugin::PluginEngineInterface
{
public:
    /** @throws std::runtime_error if no BB node takes the stream */
    Writer(adios2::IO io, const std::string &name, adios2::Mode mode, const Parameters &parameters);

    /** Without Close the stream ends as aborted. */
    ~Writer() override;

    adios2::StepStatus BeginStep(adios2::StepMode mode, float timeoutSeconds = -1.0f) override;
    size_t CurrentStep() const override;
    void EndStep() override;
    void PerformPuts() override;
    void DoClose(int transportIndex = -1) override;

#define declare(T)                                                                                 \
    void DoPutSync(adios2::Variable<T> variable, const T *values) override;                        \
    void DoPutDeferred(adios2::Variable<T> variable, const T *values) override;
    ADIOS2_FOREACH_STDTYPE_1ARG(declare)
#undef declare

#define declare(T)                                                                                 \
    void DoPut(adios2::Variable<T> variable, typename adios2::Variable<T>::Span &span,             \
               bool initialize, const T &value) override;
    ADIOS2_FOREACH_PRIMITIVE_STDTYPE_1ARG(declare)
#undef declare

private:
    Session m_Session;
    Attributes m_Attributes;
    /** Attributes that changed, but didn't land yet. */
    Value::Array m_Unsent;
    size_t m_Steps = 0;
    bool m_InStep = false;
    bool m_Closed = false;

    template <class T>
    void Put(const adios2::Variable<T> &variable, const T *values, When when);
    void Open(float timeoutSeconds);
    void CollectAttributes();
};

} // end namespace bbflow
