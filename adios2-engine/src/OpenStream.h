#pragma once

#include "Attributes.h"
#include "Session.h"

#include <adios2.h>

#include <string>

namespace bbflow
{

/** The stream that a rank writes, over all the files that the program makes of it. */
class OpenStream
{
public:
    /** @throws std::runtime_error if no BB node takes the stream */
    explicit OpenStream(const Parameters &parameters);

    const Parameters &Given() const { return m_Parameters; }

    /** The program continues with a file.
     *  @param name empty if unknown
     *  @param appends whether it counts the file's steps on, if it is the same */
    void BeginFile(const std::string &name, bool appends);

    /** Asks for a step; gives false if there was no room in time. */
    bool Begin(const Deadline &deadline);

    void Put(Block block, When when) { m_Session.Put(std::move(block), when); }
    void PerformPuts() { m_Session.PerformPuts(); }

    /** Makes the step final, with what has changed of the IO's attributes. */
    void EndStep(adios2::IO &io);

    /** Takes in what has changed of the IO's attributes after the last step. */
    void EndFile(adios2::IO &io);

    void Close();
    void Abort() { m_Session.Abort(); }

    bool IsInStep() const { return m_InStep; }

    /** The step that the program is in, or was in last, as it counts them. */
    size_t StepOfFile() const;

private:
    const Parameters m_Parameters;
    Session m_Session;
    Attributes m_Attributes;
    /** Attributes that changed, but didn't land yet. */
    Value::Array m_Unsent;
    std::string m_File, m_FileSent;
    size_t m_Steps = 0;
    /** Number in the stream of the file's first step. */
    size_t m_FirstOfFile = 0;
    bool m_InStep = false;

    void CollectAttributes(adios2::IO &io);
};

} // end namespace bbflow
