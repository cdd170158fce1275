#include "Engine.h"

#include "BlockRecord.h"

#include <stdexcept>

namespace bbflow
{

namespace
{

/** Deferred blocks up to this size are copied within the Put, as BP5 does (its MinDeferredSize):
 * Python's scalars and expressions are temporaries that are gone when Put returns. */
constexpr size_t SmallBytes = size_t{4} << 20;

} // end empty namespace

Engine::Engine(adios2::IO io, const std::string &name, const adios2::Mode mode,
               const Parameters &parameters)
: PluginEngineInterface(io, name, mode), m_Parameters(parameters), m_Session(parameters)
{
}

Engine::~Engine()
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

adios2::StepStatus Engine::BeginStep(const adios2::StepMode mode, const float timeoutSeconds)
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

void Engine::Open(const float timeoutSeconds)
{
    const Admission admission = m_Session.Begin(m_Steps, After(timeoutSeconds));
    m_InStep = admission != Admission::NotReady;
    m_Discarding = admission == Admission::Discarded;
}

size_t Engine::CurrentStep() const { return m_InStep || m_Steps == 0 ? m_Steps : m_Steps - 1; }

template <class T>
void Engine::Put(const adios2::Variable<T> &variable, const T *values, const bool sync)
{
    if (!m_InStep)
    {
        Open(-1.0f); // a program without BeginStep writes one step, which Close ends
    }
    if (m_Discarding)
    {
        return;
    }
    Value::Map record = DescribeBlock(variable);
    const adios2::ShapeID kind = variable.ShapeID();
    const bool isValue = std::is_same_v<T, std::string> || kind == adios2::ShapeID::GlobalValue ||
                         kind == adios2::ShapeID::LocalValue;
    if (isValue)
    {
        // Its memory may be gone when this call returns (Python's scalars are temporaries).
        record.emplace_back("value", NumberOf(*values));
        m_Blocks.emplace_back(std::move(record));
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
            Deferred block{m_Blocks.size(), std::move(record), values,
                           elements,        sizeof(T),         LandBlock<T>};
            m_Blocks.emplace_back(); // keeps the order of the Puts
            if (sync || block.Bytes() <= SmallBytes)
            {
                Land(block, block.Bytes());
            }
            else
            {
                m_Deferred.push_back(std::move(block));
            }
        }
    }
}

void Engine::Land(Deferred &block, const size_t pending)
{
    size_t offset = 0;
    char *target = m_Session.Place(block.Bytes(), pending, offset);
    block.Record.emplace_back("offset", uint64_t{offset});
    block.Record.emplace_back("bytes", uint64_t{block.Bytes()});
    block.Copy(target, block.Data, block.Elements, block.Record);
    m_Blocks[block.Index] = std::move(block.Record);
}

void Engine::PerformPuts()
{
    size_t pending = 0;
    for (const Deferred &block : m_Deferred)
    {
        pending += Arena::Padded(block.Bytes());
    }
    for (Deferred &block : m_Deferred)
    {
        Land(block, pending);
        pending -= Arena::Padded(block.Bytes());
    }
    m_Deferred.clear();
}

void Engine::EndStep()
{
    if (!m_InStep)
    {
        throw std::logic_error("bbflow: EndStep was called without BeginStep");
    }
    if (!m_Discarding)
    {
        PerformPuts();
        const bool speaks = m_Parameters.Place.Rank == 0;
        m_Session.Commit(std::move(m_Blocks),
                         speaks ? m_Attributes.TakeChanged(m_IO) : Value::Array{});
        m_Blocks = {};
    }
    m_InStep = false;
    ++m_Steps;
}

void Engine::DoClose(const int)
{
    if (m_InStep)
    {
        EndStep();
    }
    m_Session.Close(m_Steps);
    m_Closed = true;
}

#define define(T)                                                                                  \
    void Engine::DoPutSync(adios2::Variable<T> variable, const T *values)                          \
    {                                                                                              \
        Put(variable, values, true);                                                               \
    }                                                                                              \
    void Engine::DoPutDeferred(adios2::Variable<T> variable, const T *values)                      \
    {                                                                                              \
        Put(variable, values, false);                                                              \
    }
ADIOS2_FOREACH_STDTYPE_1ARG(define)
#undef define

#define define(T)                                                                                  \
    void Engine::DoPut(adios2::Variable<T> variable, typename adios2::Variable<T>::Span &, bool,   \
                       const T &)                                                                  \
    {                                                                                              \
        throw std::invalid_argument("bbflow: " + variable.Name() +                                 \
                                    " was Put as a span, which a plugin engine can't serve: Put "  \
                                    "it from your own memory");                                    \
    }
ADIOS2_FOREACH_PRIMITIVE_STDTYPE_1ARG(define)
#undef define

} // end namespace bbflow
