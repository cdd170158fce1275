#include "OpenStream.h"

namespace bbflow
{

namespace
{

/** The attribute that tells which file the following steps are of. */
constexpr const char *FileName = "bbflow_file";

} // end empty namespace

OpenStream::OpenStream(const Parameters &parameters)
: m_Parameters(parameters), m_Session(parameters)
{
}

void OpenStream::BeginFile(const std::string &name, const bool appends)
{
    if (!appends || name != m_File)
    {
        m_FirstOfFile = m_Steps;
    }
    m_File = name;
}

bool OpenStream::Begin(const Deadline &deadline)
{
    m_InStep = m_Session.Begin(m_Steps, deadline) != Admission::NotReady;
    return m_InStep;
}

void OpenStream::EndStep(adios2::IO &io)
{
    // A node to which the rank moves while it commits must hear all with the first step there.
    const auto unsent = [&]
    {
        CollectAttributes(io);
        return m_Unsent;
    };
    if (m_Session.Commit(unsent))
    {
        m_Unsent.clear();
    }
    m_InStep = false;
    ++m_Steps;
}

void OpenStream::EndFile(adios2::IO &io) { CollectAttributes(io); }

void OpenStream::CollectAttributes(adios2::IO &io)
{
    if (m_Session.Rank() != 0)
    {
        return;
    }
    if (m_Session.TakeNewNode())
    {
        m_Unsent = m_Attributes.Told();
        m_FileSent.clear();
    }
    for (Value &attribute : m_Attributes.TakeChanged(io, m_Steps))
    {
        m_Unsent.push_back(std::move(attribute));
    }
    if (m_Parameters.KeepOpen && m_InStep && m_File != m_FileSent)
    {
        m_Unsent.push_back(Value::Map{{"name", FileName}, {"type", "string"}, {"value", m_File}});
        m_FileSent = m_File;
    }
}

void OpenStream::Close() { m_Session.Close(m_Steps, m_Unsent); }

size_t OpenStream::StepOfFile() const
{
    const size_t steps = m_Steps - m_FirstOfFile;
    return m_InStep || steps == 0 ? steps : steps - 1;
}

} // end namespace bbflow
