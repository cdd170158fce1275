#include "Writer.h"

#include "Box.h"
#include "Number.h"
#include "SelectionOf.h"

#include <stdexcept>
#include <string>

namespace bbflow
{

namespace
{

/** The part of a program's memory that its memory selection stands for, in one piece. */
template <class T>
std::vector<T> Gather(const adios2::core::Selection &selection, const adios2::Dims &count,
                      const T *values)
{
    const Box part{selection.GetMemoryStart(), count};
    const Box memory{adios2::Dims(part.Start.size(), 0), selection.GetMemoryCount()};
    std::vector<T> gathered(part.Elements());
    const Runs runs(part, memory, part);
    runs.Copy(reinterpret_cast<const char *>(values + runs.SourceBegin()),
              reinterpret_cast<char *>(gathered.data()), sizeof(T));
    return gathered;
}

/** A block that isn't in its array would end the analysis, and be seen in part by readers. */
void CheckInShape(const BlockForm &form)
{
    for (size_t d = 0; d < form.Shape.size(); ++d)
    {
        const size_t start = form.Start[d], count = form.Count[d], length = form.Shape[d];
        if (count > length || start > length - count)
        {
            throw std::invalid_argument(
                "bbflow: a block of " + form.Name + " is not in its shape: along dimension " +
                std::to_string(d) + " it has start " + std::to_string(start) + " and count " +
                std::to_string(count) + ", but the shape's length is " + std::to_string(length));
        }
    }
}

} // end empty namespace

Writer::Writer(adios2::IO io, const std::string &name, const adios2::Mode mode,
               const Parameters &parameters)
: PluginEngineInterface(io, name, mode), m_Session(parameters)
{
}

Writer::~Writer()
{
    if (!m_Closed)
    {
        try
        {
            m_Session.Abort();
        }
        catch (const std::exception &)
        {
            // The agent is gone: it has seen the end of the connection, which means the same.
        }
    }
}

adios2::StepStatus Writer::BeginStep(const adios2::StepMode mode, const float timeoutSeconds)
{
    if (mode != adios2::StepMode::Append)
    {
        throw std::invalid_argument("bbflow: BeginStep takes StepMode::Append only");
    }
    if (m_InStep)
    {
        throw std::logic_error("bbflow: BeginStep was called twice without EndStep");
    }
    Open(timeoutSeconds);
    return m_InStep ? adios2::StepStatus::OK : adios2::StepStatus::NotReady;
}

void Writer::Open(const float timeoutSeconds)
{
    m_InStep = m_Session.Begin(m_Steps, After(timeoutSeconds)) != Admission::NotReady;
}

size_t Writer::CurrentStep() const { return m_InStep || m_Steps == 0 ? m_Steps : m_Steps - 1; }

template <class T>
void Writer::Put(const adios2::Variable<T> &variable, const T *values, const When when)
{
    if (!m_InStep)
    {
        Open(-1.0f); // a program without BeginStep writes one step, which Close ends
    }
    Block block;
    block.Form = FormOf(variable);
    const adios2::ShapeID kind = variable.ShapeID();
    if (std::is_same_v<T, std::string> || kind == adios2::ShapeID::GlobalValue ||
        kind == adios2::ShapeID::LocalValue)
    {
        // Its memory may be gone when this call returns (Python's scalars are temporaries).
        block.Single = NumberOf(*values);
        m_Session.Put(std::move(block), when);
        return;
    }
    size_t elements = 1;
    for (const size_t length : variable.Count())
    {
        elements *= length;
    }
    if constexpr (!std::is_same_v<T, std::string>)
    {
        if (elements > 0)
        {
            if (kind == adios2::ShapeID::GlobalArray)
            {
                CheckInShape(block.Form);
            }
            block.Bytes = elements * sizeof(T);
            block.Look = MakeScan<T>();
            const adios2::core::Selection selection = SelectionOf(variable);
            if (selection.HasMemorySelection())
            {
                const std::vector<T> gathered = Gather(selection, variable.Count(), values);
                block.Source = reinterpret_cast<const char *>(gathered.data());
                m_Session.Put(std::move(block), When::AtOnce);
                return;
            }
            block.Source = reinterpret_cast<const char *>(values);
            m_Session.Put(std::move(block), when);
        }
    }
}

void Writer::PerformPuts()
{
    if (m_InStep)
    {
        m_Session.PerformPuts();
    }
}

void Writer::EndStep()
{
    if (!m_InStep)
    {
        throw std::logic_error("bbflow: EndStep was called without BeginStep");
    }
    CollectAttributes();
    if (m_Session.Commit(m_Unsent))
    {
        m_Unsent.clear();
    }
    m_InStep = false;
    ++m_Steps;
}

void Writer::CollectAttributes()
{
    if (m_Session.Rank() != 0)
    {
        return;
    }
    if (m_Session.TakeNewNode())
    {
        m_Attributes = {};
        m_Unsent.clear();
    }
    for (Value &attribute : m_Attributes.TakeChanged(m_IO))
    {
        m_Unsent.push_back(std::move(attribute));
    }
}

void Writer::DoClose(const int)
{
    if (m_InStep)
    {
        EndStep();
    }
    CollectAttributes();
    m_Session.Close(m_Steps, m_Unsent);
    m_Closed = true;
}

#define define(T)                                                                                  \
    void Writer::DoPutSync(adios2::Variable<T> variable, const T *values)                          \
    {                                                                                              \
        Put(variable, values, When::AtOnce);                                                       \
    }                                                                                              \
    void Writer::DoPutDeferred(adios2::Variable<T> variable, const T *values)                      \
    {                                                                                              \
        Put(variable, values, When::Later);                                                        \
    }
ADIOS2_FOREACH_STDTYPE_1ARG(define)
#undef define

#define define(T)                                                                                  \
    void Writer::DoPut(adios2::Variable<T> variable, typename adios2::Variable<T>::Span &, bool,   \
                       const T &)                                                                  \
    {                                                                                              \
        throw std::invalid_argument("bbflow: " + variable.Name() +                                 \
                                    " was Put as a span, which a plugin engine can't serve: Put "  \
                                    "it from your own memory");                                    \
    }
ADIOS2_FOREACH_PRIMITIVE_STDTYPE_1ARG(define)
#undef define

} // end namespace bbflow
