/** The engine as ADIOS2 2.12 and later see it: plugin engine interface 2. */

#include "Plugin.h"
#include "IoOrder.h"
#include "SelectionOf.h"

#include <adios2/plugin/PluginEngineInterface.h>

#include <stdexcept>

#if ADIOS2_PLUGIN_ENGINE_INTERFACE != 2
#error "bbflow knows ADIOS2's plugin engine interfaces 1 and 2: this ADIOS2 has another one"
#endif

namespace bbflow
{

namespace
{

/** This interface, for what all have in common. */
struct Host
{
    using Interface = adios2::plugin::PluginEngineInterface;

    template <class T>
    using VariableOf = adios2::Variable<T>;

    template <class T>
    static const adios2::Variable<T> &Public(const adios2::Variable<T> &variable)
    {
        return variable;
    }

    template <class T>
    static Selection Selected(const adios2::Variable<T> &variable)
    {
        return SelectionOf(variable);
    }
};

class Writing : public WriterPlugin<Host>
{
public:
    using WriterPlugin::WriterPlugin;

#define define(T)                                                                                  \
    void DoPut(adios2::Variable<T> variable, typename adios2::Variable<T>::Span &span,             \
               bool isFilled, const T &value) override                                             \
    {                                                                                              \
        m_Writer->PutSpan(variable, span, SelectionOf(variable), isFilled ? &value : nullptr);     \
    }
    ADIOS2_FOREACH_PRIMITIVE_STDTYPE_1ARG(define)
#undef define
};

class Reading : public ReaderPlugin<Host>
{
public:
    using ReaderPlugin::DoGetDeferred;
    using ReaderPlugin::DoGetSync;
    using ReaderPlugin::ReaderPlugin;

    /** Blocks of the current step, whatever step is asked for. */
    adios2::MinVarInfo *MinBlocksInfo(const std::string &name, size_t) const override
    {
        return m_Reader->MinBlocksInfo(name);
    }

#define define(T)                                                                                  \
    void DoGetSync(adios2::Variable<T> variable, T *values,                                        \
                   const adios2::core::Selection &selection) override                              \
    {                                                                                              \
        m_Reader->Get(variable, values, SelectionOf(selection), true);                             \
    }                                                                                              \
    void DoGetDeferred(adios2::Variable<T> variable, T *values,                                    \
                       const adios2::core::Selection &selection) override                          \
    {                                                                                              \
        m_Reader->Get(variable, values, SelectionOf(selection), false);                            \
    }
    ADIOS2_FOREACH_STDTYPE_1ARG(define)
#undef define
};

} // end empty namespace

} // end namespace bbflow

/** What ADIOS2 looks for in a plugin's library. */
extern "C"
{

    __attribute__((visibility("default"))) adios2::plugin::PluginEngineInterface *
    EngineCreate(adios2::IO io, const std::string &name, const adios2::Mode mode)
    {
        const bbflow::Opened opened = bbflow::AskPreloaded();
        return bbflow::OpenOrTell(
            io, opened, bbflow::Writes(mode),
            [&]
            {
                bbflow::Program program =
                    bbflow::LookAt(io, name, mode, opened, bbflow::OrderOf(io));
                const adios2::Mode own = program.Mode;
                return bbflow::NewEngine<bbflow::Host, bbflow::Writing, bbflow::Reading>(
                    program, program.Io, name, own);
            });
    }

    __attribute__((visibility("default"))) void
    EngineDestroy(adios2::plugin::PluginEngineInterface *engine)
    {
        delete engine;
    }

} // extern "C"
