/** The engine as ADIOS2 before 2.12 sees it: plugin engine interface 1, a class of its core. */

#include "Reader.h"
#include "Writer.h"

#include <adios2/core/IO.h>
#include <adios2/core/Variable.h>
#include <adios2/engine/plugin/PluginEngineInterface.h>

#include <cstring>
#include <memory>
#include <type_traits>

namespace bbflow
{

namespace
{

using Interface = adios2::plugin::PluginEngineInterface;

/** ADIOS2's public classes are nothing but pointers to the core's, but only the public ones have
 * friends that may make them of these. */
template <class Public, class Core>
Public PublicOf(Core &core)
{
    static_assert(sizeof(Public) == sizeof(void *) && std::is_standard_layout_v<Public>);
    Public made;
    Core *address = &core;
    std::memcpy(static_cast<void *>(&made), &address, sizeof(address));
    return made;
}

template <class T>
adios2::Variable<T> VariableOf(adios2::core::Variable<T> &variable)
{
    return PublicOf<adios2::Variable<T>>(variable);
}

/** What a program has selected of a variable. */
Selection SelectionOf(const adios2::core::VariableBase &variable)
{
    Selection selection;
    selection.IsBox = variable.m_SelectionType == adios2::SelectionType::BoundingBox &&
                      !variable.m_Start.empty() &&
                      variable.m_Start.size() == variable.m_Count.size();
    selection.Start = variable.m_Start;
    selection.Count = variable.m_Count;
    if (variable.m_SelectionType == adios2::SelectionType::WriteBlock || variable.m_BlockID != 0)
    {
        selection.Block = variable.m_BlockID;
    }
    selection.HasMemory = !variable.m_MemoryStart.empty();
    selection.MemoryStart = variable.m_MemoryStart;
    selection.MemoryCount = variable.m_MemoryCount;
    selection.StepStart = variable.m_StepsStart;
    selection.StepCount = variable.m_StepsCount;
    return selection;
}

/** What ADIOS2 gives its plugins here and a preloaded library tells where it doesn't. */
Opened LookAtOpen(const adios2::helper::Comm &comm)
{
    Opened opened = AskPreloaded();
    if (!opened.Place && HasMpi())
    {
        const adios2::helper::Comm host = comm.GroupByShm("bbflow");
        opened.Place = RankOf{static_cast<size_t>(comm.Rank()), static_cast<size_t>(comm.Size())};
        opened.OnHost = RankOf{static_cast<size_t>(host.Rank()), static_cast<size_t>(host.Size())};
    }
    return opened;
}

class WriterPlugin : public Interface
{
public:
    WriterPlugin(adios2::core::IO &io, const std::string &name, adios2::helper::Comm comm,
                 const Program &program)
    : Interface(io, name, program.Mode, std::move(comm)), m_Writer(program)
    {
    }

    adios2::StepStatus BeginStep(adios2::StepMode mode, float timeoutSeconds) override
    {
        return m_Writer.BeginStep(mode, timeoutSeconds);
    }
    size_t CurrentStep() const override { return m_Writer.CurrentStep(); }
    void EndStep() override { m_Writer.EndStep(); }
    void PerformPuts() override { m_Writer.PerformPuts(); }

protected:
    void DoClose(int) override { m_Writer.Close(); }
    void DestructorClose(bool) noexcept override {}

#define define(T)                                                                                  \
    void DoPutSync(adios2::core::Variable<T> &variable, const T *values) override                  \
    {                                                                                              \
        m_Writer.Put(VariableOf(variable), values, SelectionOf(variable), When::AtOnce);           \
    }                                                                                              \
    void DoPutDeferred(adios2::core::Variable<T> &variable, const T *values) override              \
    {                                                                                              \
        m_Writer.Put(VariableOf(variable), values, SelectionOf(variable), When::Later);            \
    }
    ADIOS2_FOREACH_STDTYPE_1ARG(define)
#undef define

private:
    Writer m_Writer;
};

class ReaderPlugin : public Interface
{
public:
    ReaderPlugin(adios2::core::IO &io, const std::string &name, adios2::helper::Comm comm,
                 const Program &program)
    : Interface(io, name, program.Mode, std::move(comm)), m_Reader(program)
    {
    }

    adios2::StepStatus BeginStep(adios2::StepMode mode, float timeoutSeconds) override
    {
        return m_Reader.BeginStep(mode, timeoutSeconds);
    }
    size_t CurrentStep() const override { return m_Reader.CurrentStep(); }
    void EndStep() override { m_Reader.EndStep(); }
    void PerformGets() override { m_Reader.PerformGets(); }

protected:
    void DoClose(int) override { m_Reader.Close(); }
    void DestructorClose(bool) noexcept override {}

#define define(T)                                                                                  \
    void DoGetSync(adios2::core::Variable<T> &variable, T *values) override                        \
    {                                                                                              \
        m_Reader.Get(VariableOf(variable), values, SelectionOf(variable), true);                   \
    }                                                                                              \
    void DoGetDeferred(adios2::core::Variable<T> &variable, T *values) override                    \
    {                                                                                              \
        m_Reader.Get(VariableOf(variable), values, SelectionOf(variable), false);                  \
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
    EngineCreate(adios2::core::IO &io, const std::string &name, const adios2::Mode mode,
                 adios2::helper::Comm comm)
    {
        const bool isColumnMajor = io.m_ArrayOrder == adios2::ArrayOrdering::ColumnMajor;
        bbflow::Program program = bbflow::LookAt(bbflow::PublicOf<adios2::IO>(io), name, mode,
                                                 bbflow::LookAtOpen(comm), isColumnMajor);
        std::unique_ptr<bbflow::Interface> engine;
        if (program.Writes())
        {
            engine = std::make_unique<bbflow::WriterPlugin>(io, name, std::move(comm), program);
        }
        else
        {
            engine = std::make_unique<bbflow::ReaderPlugin>(io, name, std::move(comm), program);
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
