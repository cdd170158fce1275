#pragma once

#include "OfProcess.h"
#include "Reader.h"
#include "Refusal.h"
#include "Writer.h"

#include <memory>
#include <utility>

namespace bbflow
{

/** The engine of a program that writes, as any of ADIOS2's plugin interfaces has it.
 *  @tparam Host the interface: `Interface`, its class for engines; `VariableOf<T>`, how that hands
 *      over a variable; `Public` and `Selected`, the public variable and what is selected of it */
template <class Host>
class WriterPlugin : public Host::Interface
{
public:
    template <class... Given>
    explicit WriterPlugin(const Program &program, Given &&...given)
    : Host::Interface(std::forward<Given>(given)...), m_Writer(program)
    {
    }

    adios2::StepStatus BeginStep(adios2::StepMode mode, float timeoutSeconds) override
    {
        return m_Writer->BeginStep(mode, timeoutSeconds);
    }
    size_t CurrentStep() const override { return m_Writer->CurrentStep(); }
    void EndStep() override { m_Writer->EndStep(); }
    void PerformPuts() override { m_Writer->PerformPuts(); }

protected:
    /** A fork that ends closes its copy, as Python's `with` does. */
    void DoClose(int) override { m_Writer.IsOwn() ? m_Writer->Close() : void(); }

#define define(T)                                                                                  \
    void DoPutSync(typename Host::template VariableOf<T> variable, const T *values) override       \
    {                                                                                              \
        m_Writer->Put(Host::Public(variable), values, Host::Selected(variable), When::AtOnce);     \
    }                                                                                              \
    void DoPutDeferred(typename Host::template VariableOf<T> variable, const T *values) override   \
    {                                                                                              \
        m_Writer->Put(Host::Public(variable), values, Host::Selected(variable), When::Later);      \
    }
    ADIOS2_FOREACH_STDTYPE_1ARG(define)
#undef define

    OfProcess<Writer> m_Writer;
};

/** The engine of a program that reads; see `WriterPlugin`. */
template <class Host>
class ReaderPlugin : public Host::Interface
{
public:
    template <class... Given>
    explicit ReaderPlugin(const Program &program, Given &&...given)
    : Host::Interface(std::forward<Given>(given)...), m_Reader(program)
    {
    }

    adios2::StepStatus BeginStep(adios2::StepMode mode, float timeoutSeconds) override
    {
        return m_Reader->BeginStep(mode, timeoutSeconds);
    }
    size_t CurrentStep() const override { return m_Reader->CurrentStep(); }
    void EndStep() override { m_Reader->EndStep(); }
    void PerformGets() override { m_Reader->PerformGets(); }

protected:
    OfProcess<Reader> m_Reader;

    void DoClose(int) override { m_Reader.IsOwn() ? m_Reader->Close() : void(); }

#define define(T)                                                                                  \
    void DoGetSync(typename Host::template VariableOf<T> variable, T *values) override             \
    {                                                                                              \
        m_Reader->Get(Host::Public(variable), values, Host::Selected(variable), true);             \
    }                                                                                              \
    void DoGetDeferred(typename Host::template VariableOf<T> variable, T *values) override         \
    {                                                                                              \
        m_Reader->Get(Host::Public(variable), values, Host::Selected(variable), false);            \
    }
    ADIOS2_FOREACH_STDTYPE_1ARG(define)
#undef define
};

/** Makes the engine that a program needs; from then on its Open counts.
 *  @param given what the interface's constructor takes */
template <class Host, class Writing, class Reading, class... Given>
typename Host::Interface *NewEngine(Program &program, Given &&...given)
{
    std::unique_ptr<typename Host::Interface> engine;
    if (program.Writes())
    {
        engine = std::make_unique<Writing>(program, std::forward<Given>(given)...);
    }
    else
    {
        engine = std::make_unique<Reading>(program, std::forward<Given>(given)...);
    }
    program.Number.Count();
    return engine.release();
}

} // end namespace bbflow
