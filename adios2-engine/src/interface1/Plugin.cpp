/** The engine as ADIOS2 before 2.12 sees it: plugin engine interface 1, a class of its core. */

#include "Plugin.h"
#include "Opening.h"

#include <adios2/core/IO.h>
#include <adios2/core/Variable.h>
#include <adios2/engine/plugin/PluginEngineInterface.h>

#include <cstring>
#include <type_traits>

namespace bbflow
{

namespace
{

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
Opened LookAtOpen(const adios2::helper::Comm &comm, const bool writes)
{
    Opened opened = AskPreloaded();
    if (!opened.Place && HasMpi())
    {
        opened.Place = RankOf{static_cast<size_t>(comm.Rank()), static_cast<size_t>(comm.Size())};
    }
    const bool isSame = opened.Place && static_cast<size_t>(comm.Size()) == opened.Place->Writers;
    if (writes && isSame && opened.Hosts.empty())
    {
        opened.Hosts = comm.AllGatherValues(HostNumber(HostName().c_str()));
    }
    return opened;
}

/** This interface, for what all have in common. */
struct Host
{
    using Interface = adios2::plugin::PluginEngineInterface;

    template <class T>
    using VariableOf = adios2::core::Variable<T> &;

    template <class T>
    static adios2::Variable<T> Public(adios2::core::Variable<T> &variable)
    {
        return PublicOf<adios2::Variable<T>>(variable);
    }

    static Selection Selected(const adios2::core::VariableBase &variable)
    {
        return SelectionOf(variable);
    }
};

class Writing : public WriterPlugin<Host>
{
public:
    using WriterPlugin::WriterPlugin;

protected:
    void DestructorClose(bool) noexcept override {}
};

class Reading : public ReaderPlugin<Host>
{
public:
    using ReaderPlugin::ReaderPlugin;

protected:
    void DestructorClose(bool) noexcept override {}
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
        const bool writes = bbflow::Writes(mode);
        const bbflow::Opened opened = bbflow::LookAtOpen(comm, writes);
        const auto own = bbflow::PublicOf<adios2::IO>(io);
        return bbflow::OpenOrTell(
            own, opened, writes,
            [&]
            {
                bbflow::Program program = bbflow::LookAt(own, name, mode, opened, isColumnMajor);
                const adios2::Mode opens = program.Mode;
                return bbflow::NewEngine<bbflow::Host, bbflow::Writing, bbflow::Reading>(
                    program, io, name, opens, std::move(comm));
            });
    }

    __attribute__((visibility("default"))) void
    EngineDestroy(adios2::plugin::PluginEngineInterface *engine)
    {
        delete engine;
    }

} // extern "C"
