#include "Reader.h"

#include "DeviceQueue.h"
#include "IoAttributes.h"
#include "StepReader.h"

#include <algorithm>
#include <stdexcept>

namespace bbflow
{

namespace
{

/** Attribute that tells how many elements the step's Gets found in no block. */
constexpr const char *HolesName = "bbflow/holes";

void CheckSteps(const Selection &selection, const std::string &name)
{
    if (selection.StepStart != 0 || selection.StepCount != 1)
    {
        throw std::invalid_argument("bbflow: a step was selected for " + name +
                                    ", but a stream is read step by step: take BeginStep and "
                                    "EndStep instead of SetStepSelection");
    }
}

using Variables = std::map<std::string, StoredVariable>;

/** As a program sees them whose arrays are column-major. */
Variables Reversed(Variables variables)
{
    for (auto &[name, variable] : variables)
    {
        std::reverse(variable.Shape.begin(), variable.Shape.end());
        for (StoredBlock &block : variable.Blocks)
        {
            std::reverse(block.Place.Start.begin(), block.Place.Start.end());
            std::reverse(block.Place.Count.begin(), block.Place.Count.end());
        }
    }
    return variables;
}

} // end empty namespace

Reader::Reader(const Program &program)
: m_IO(program.Io), m_IsColumnMajor(program.IsColumnMajor), m_Stream(program.Parameters),
  m_Shown(program.Io)
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
    if (m_IsColumnMajor)
    {
        m_Reversed = Reversed(m_Contents);
    }
    m_Shown.Show(Contents());
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

void Reader::Close()
{
    if (m_InStep)
    {
        EndStep();
    }
    m_Shown.Clear();
}

adios2::MinVarInfo *Reader::MinBlocksInfo(const std::string &name) const
{
    const auto variable = Contents().find(name);
    return variable == Contents().end()
               ? nullptr
               : m_BlocksInfo.Describe(variable->second, CurrentStep()).release();
}

template <class T>
void Reader::Get(const adios2::Variable<T> &variable, T *values, const Selection &selection,
                 const bool sync)
{
    const std::string name = variable.Name();
    const StoredVariable &stored = Find(name, adios2::GetType<T>());
    CheckSteps(selection, name);
    if (IsOnDevice(values))
    {
        throw std::invalid_argument("bbflow: " + name +
                                    " can't be read into a GPU's memory: Get it into the "
                                    "host's, and copy it");
    }
    if (stored.IsSingle() && !stored.IsGlobalArray())
    {
        // ADIOS2 drops the mode of these Gets: the program may look at the value at once.
        *values = ValueAs<T>(StepReader(m_Stream, m_Step, stored, name).Single(selection));
        return;
    }
    if constexpr (!std::is_same_v<T, std::string>)
    {
        const Selection wanted = m_IsColumnMajor ? Reversed(selection) : selection;
        auto get = [this, name, &stored, wanted, values]
        {
            const StepReader reader(m_Stream, m_Step, stored, name);
            ShowHoles(m_Holes + reader.Read(wanted, values));
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

#define instantiate(T)                                                                             \
    template void Reader::Get(const adios2::Variable<T> &, T *, const Selection &, bool);
ADIOS2_FOREACH_STDTYPE_1ARG(instantiate)
#undef instantiate

} // end namespace bbflow
