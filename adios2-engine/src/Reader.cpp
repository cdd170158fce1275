#include "Reader.h"

#include "IoAttributes.h"
#include "SelectionOf.h"
#include "StepReader.h"

#include <stdexcept>

namespace bbflow
{

namespace
{

/** Attribute that tells how many elements the step's Gets found in no block. */
constexpr const char *HolesName = "bbflow/holes";

void CheckSteps(const adios2::core::Selection &selection, const std::string &name)
{
    if (selection.GetStepStart() != 0 || selection.GetStepCount() != 1)
    {
        throw std::invalid_argument("bbflow: a step was selected for " + name +
                                    ", but a stream is read step by step: take BeginStep and "
                                    "EndStep instead of SetStepSelection");
    }
}

} // end empty namespace

Reader::Reader(adios2::IO io, const std::string &name, const adios2::Mode mode,
               const Parameters &parameters)
: PluginEngineInterface(io, name, mode), m_Stream(parameters), m_Shown(io)
{
}

adios2::StepStatus Reader::BeginStep(const adios2::StepMode mode, const float timeoutSeconds)
{
    if (mode != adios2::StepMode::Read)
    {
        throw std::invalid_argument("bbflow: a reader's BeginStep takes StepMode::Read only");
    }
    if (m_InStep)
    {
        throw std::logic_error("bbflow: BeginStep was called twice without EndStep");
    }
    const Next next = m_Stream.Await(m_Step, After(timeoutSeconds));
    switch (next.What)
    {
    case Next::Kind::Wait:
        return adios2::StepStatus::NotReady;
    case Next::Kind::End:
        ShowAttributes(m_Stream.FinalAttributes());
        return adios2::StepStatus::EndOfStream;
    case Next::Kind::Failure:
        return adios2::StepStatus::OtherError;
    case Next::Kind::Ready:
        break;
    }
    m_BlocksInfo.Clear();
    m_Contents = m_Stream.Contents(next.Step);
    m_Shown.Show(m_Contents);
    ShowAttributes(m_Stream.TakeAttributes(next.Step));
    ShowHoles(0);
    m_Step = next.Step;
    m_InStep = true;
    return adios2::StepStatus::OK;
}

void Reader::EndStep()
{
    if (!m_InStep)
    {
        throw std::logic_error("bbflow: EndStep was called without BeginStep");
    }
    PerformGets();
    m_InStep = false;
    m_Stream.Pass(m_Step);
}

void Reader::PerformGets()
{
    const std::vector<std::function<void()>> gets = std::move(m_Deferred);
    m_Deferred.clear();
    for (const std::function<void()> &get : gets)
    {
        get();
    }
    if (!gets.empty())
    {
        m_Stream.Confirm(m_Step);
    }
}

void Reader::DoClose(const int)
{
    if (m_InStep)
    {
        EndStep();
    }
    m_Shown.Clear();
}

adios2::MinVarInfo *Reader::MinBlocksInfo(const std::string &name, const size_t) const
{
    const auto variable = m_Contents.find(name);
    return variable == m_Contents.end()
               ? nullptr
               : m_BlocksInfo.Describe(variable->second, CurrentStep()).release();
}

template <class T>
void Reader::Get(const adios2::Variable<T> &variable, T *values,
                 const adios2::core::Selection &selection, const bool sync)
{
    const std::string name = variable.Name();
    const StoredVariable &stored = Find(name, adios2::GetType<T>());
    CheckSteps(selection, name);
    if (stored.IsSingle() && !stored.IsGlobalArray())
    {
        // ADIOS2 drops the mode of these Gets: the program may look at the value at once.
        *values = ValueAs<T>(StepReader(m_Stream, m_Step, stored, name).Single(selection));
        return;
    }
    if constexpr (!std::is_same_v<T, std::string>)
    {
        auto get = [this, name, &stored, selection, values]
        {
            const StepReader reader(m_Stream, m_Step, stored, name);
            ShowHoles(m_Holes + reader.Read(selection, values));
        };
        m_Deferred.push_back(std::move(get));
        if (sync)
        {
            PerformGets(); // the earlier ones as well, as with BP5
        }
    }
}

const StoredVariable &Reader::Find(const std::string &name, const std::string &type) const
{
    if (!m_InStep)
    {
        throw std::logic_error("bbflow: Get of " + name +
                               " was called outside of a step: call "
                               "BeginStep first");
    }
    const auto variable = m_Contents.find(name);
    if (variable == m_Contents.end() || variable->second.Type != type)
    {
        throw std::invalid_argument("bbflow: step " + std::to_string(m_Step) + " has no variable " +
                                    name + " of type " + type);
    }
    return variable->second;
}

void Reader::ShowAttributes(const Value::Array &attributes)
{
    for (const Value &attribute : attributes)
    {
        ShowAttribute(m_IO, attribute);
    }
}

void Reader::ShowHoles(const uint64_t elements)
{
    if (elements != m_Holes)
    {
        m_Holes = elements;
        m_IO.DefineAttribute<uint64_t>(HolesName, m_Holes, "", "/", true);
    }
}

#define define(T)                                                                                  \
    void Reader::DoGetSync(adios2::Variable<T> variable, T *values)                                \
    {                                                                                              \
        Get(variable, values, SelectionOf(variable), true);                                        \
    }                                                                                              \
    void Reader::DoGetDeferred(adios2::Variable<T> variable, T *values)                            \
    {                                                                                              \
        Get(variable, values, SelectionOf(variable), false);                                       \
    }                                                                                              \
    void Reader::DoGetSync(adios2::Variable<T> variable, T *values,                                \
                           const adios2::core::Selection &selection)                               \
    {                                                                                              \
        Get(variable, values, selection, true);                                                    \
    }                                                                                              \
    void Reader::DoGetDeferred(adios2::Variable<T> variable, T *values,                            \
                               const adios2::core::Selection &selection)                           \
    {                                                                                              \
        Get(variable, values, selection, false);                                                   \
    }
ADIOS2_FOREACH_STDTYPE_1ARG(define)
#undef define

} // end namespace bbflow
