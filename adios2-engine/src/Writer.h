#pragma once

#include "OpenStream.h"
#include "Program.h"
#include "Selection.h"
#include "SpanMemory.h"

#include <adios2.h>

#include <map>
#include <memory>
#include <string>

namespace bbflow
{

/** The engine of a program that writes: lands each step on a BB node. */
class Writer
{
public:
    /** @throws std::runtime_error if no BB node takes the stream */
    explicit Writer(const Program &program);

    /** Without Close the stream ends as aborted. */
    ~Writer();
    Writer(const Writer &) = delete;
    Writer &operator=(const Writer &) = delete;

    adios2::StepStatus BeginStep(adios2::StepMode mode, float timeoutSeconds);
    size_t CurrentStep() const { return m_Stream->StepOfFile(); }
    void EndStep();
    void PerformPuts();
    void Close();

    /** @param values may be in a GPU's memory
     *  @param selection of the variable, as the program has made it */
    template <class T>
    void Put(const adios2::Variable<T> &variable, const T *values, const Selection &selection,
             When when);

    /** Backs a span of the program with memory, whose values land as those of a deferred Put.
     *  @param fill what it has at first; null if that counts for nothing
     *  @throws std::invalid_argument if spans can't be had */
    template <class T>
    void PutSpan(const adios2::Variable<T> &variable,
                 const typename adios2::Variable<T>::Span &span, const Selection &selection,
                 const T *fill);

private:
    adios2::IO m_IO;
    const bool m_IsColumnMajor;
    /** Whether the stream continues when this file is closed. */
    const bool m_KeepOpen;
    /** Whether it is one of several files. */
    const bool m_IsKept;
    std::unique_ptr<OpenStream> m_Stream;
    bool m_Closed = false;
    SpanMemory m_Spans;
    /** What the program was refused in this step, and why: a block, or a call. */
    std::map<std::string, std::string> m_Refused;

    /** Does what the program calls, and notes why if it is refused.
     *  @param name gives what it is, if that must be known */
    template <class Name, class Action>
    auto Try(const Name &name, const Action &action);

    /** The same for a Put. A block that is Put after all, as by programs that try a span first, is
     * not refused. */
    template <class T, class Action>
    void TryPut(const adios2::Variable<T> &variable, const Action &action);

    /** Reports what was refused (Refusal.h): the program may not have looked. */
    void TellRefused() noexcept;

    void Finish();

    /** @param isOnDevice whether the CPU can't read the values */
    template <class T>
    void Land(const adios2::Variable<T> &variable, const T *values, const Selection &selection,
              When when, bool isOnDevice = false);
};

} // end namespace bbflow
