/** The engine as ADIOS2 2.12 and later see it: plugin engine interface 2. */

#include "IoOrder.h"
#include "Reader.h"
#include "SelectionOf.h"
#include "Writer.h"

#include <adios2/plugin/PluginEngineInterface.h>

#include <memory>
#include <stdexcept>

#if ADIOS2_PLUGIN_ENGINE_INTERFACE != 2
#error "bbflow knows ADIOS2's plugin engine interfaces 1 and 2: this ADIOS2 has another one"
#endif

namespace bbflow
{

namespace
{

using Interface = adios2::plugin::PluginEngineInterface;

class WriterPlugin : public Interface
{
public:
    WriterPlugin(const std::string &name, const Program &program)
    : Interface(program.Io, name, program.Mode), m_Writer(program)
    {
    }

    adios2::StepStatus BeginStep(adios2::StepMode mode, float timeoutSeconds) override
    {
        return m_Writer.BeginStep(mode, timeoutSeconds);
    }
    size_t CurrentStep() const override { return m_Writer.CurrentStep(); }
    void EndStep() override { m_Writer.EndStep(); }
    void PerformPuts() override { m_Writer.PerformPuts(); }
    void DoClose(int) override { m_Writer.Close(); }

#define define(T)                                                                                  \
    void DoPutSync(adios2::Variable<T> variable, const T *values) override                         \
    {                                                                                              \
        m_Writer.Put(variable, values, SelectionOf(variable), When::AtOnce);                       \
    }                                                                                              \
    void DoPutDeferred(adios2::Variable<T> variable, const T *values) override                     \
    {                                                                                              \
        m_Writer.Put(variable, values, SelectionOf(variable), When::Later);                        \
    }
    ADIOS2_FOREACH_STDTYPE_1ARG(define)
#undef define

#define define(T)                                                                                  \
    void DoPut(adios2::Variable<T> variable, typename adios2::Variable<T>::Span &, bool,           \
               const T &) override                                                                 \
    {                                                                                              \
        throw std::invalid_argument("bbflow: " + variable.Name() +                                 \
                                    " was Put as a span, which a plugin engine can't serve: Put "  \
                                    "it from your own memory");                                    \
    }
    ADIOS2_FOREACH_PRIMITIVE_STDTYPE_1ARG(define)
#undef define

private:
    Writer m_Writer;
};

class ReaderPlugin : public Interface
{
public:
    ReaderPlugin(const std::string &name, const Program &program)
    : Interface(program.Io, name, program.Mode), m_Reader(program)
    {
    }

    adios2::StepStatus BeginStep(adios2::StepMode mode, float timeoutSeconds) override
    {
        return m_Reader.BeginStep(mode, timeoutSeconds);
    }
    size_t CurrentStep() const override { return m_Reader.CurrentStep(); }
    void EndStep() override { m_Reader.EndStep(); }
    void PerformGets() override { m_Reader.PerformGets(); }
    void DoClose(int) override { m_Reader.Close(); }

    /** Blocks of the current step, whatever step is asked for. */
    adios2::MinVarInfo *MinBlocksInfo(const std::string &name, size_t) const override
    {
        return m_Reader.MinBlocksInfo(name);
    }

#define define(T)                                                                                  \
    void DoGetSync(adios2::Variable<T> variable, T *values) override                               \
    {                                                                                              \
        m_Reader.Get(variable, values, SelectionOf(variable), true);                               \
    }                                                                                              \
    void DoGetDeferred(adios2::Variable<T> variable, T *values) override                           \
    {                                                                                              \
        m_Reader.Get(variable, values, SelectionOf(variable), false);                              \
    }                                                                                              \
    void DoGetSync(adios2::Variable<T> variable, T *values,                                        \
                   const adios2::core::Selection &selection) override                              \
    {                                                                                              \
        m_Reader.Get(variable, values, SelectionOf(selection), true);                              \
    }                                                                                              \
    void DoGetDeferred(adios2::Variable<T> variable, T *values,                                    \
                       const adios2::core::Selection &selection) override                          \
    {                                                                                              \
        m_Reader.Get(variable, values, SelectionOf(selection), false);                             \
    }
    ADIOS2_FOREACH_STDTYPE_1ARG(define)
#undef define

private:
    Reader m_Reader;
};

} // end empty namespace

} // end namespace bbflow

/** What ADIOS2 looks for in a plugin's library. */
extern "C"
{

    __attribute__((visibility("default"))) adios2::plugin::PluginEngineInterface *
    EngineCreate(adios2::IO io, const std::string &name, const adios2::Mode mode)
    {
        bbflow::Program program =
            bbflow::LookAt(io, name, mode, bbflow::AskPreloaded(), bbflow::OrderOf(io));
        std::unique_ptr<bbflow::Interface> engine;
        if (program.Writes())
        {
            engine = std::make_unique<bbflow::WriterPlugin>(name, program);
        }
        else
        {
            engine = std::make_unique<bbflow::ReaderPlugin>(name, program);
        }
        program.Number.Count();
        return engine.release();
    }

    __attribute__((visibility("default"))) void
    EngineDestroy(adios2::plugin::PluginEngineInterface *engine)
    {
        delete engine;
    }

} // extern "C"
