#include "Writer.h"

#include "Box.h"
#include "DeviceQueue.h"
#include "KeptStreams.h"
#include "Number.h"
#include "Refusal.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace bbflow
{

namespace
{

/** The part of a program's memory that its memory selection stands for. */
Runs RunsOf(const Selection &selection, const std::vector<size_t> &count)
{
    const Box part{selection.MemoryStart, count};
    const Box memory{std::vector<size_t>(part.Start.size(), 0), selection.MemoryCount};
    return {part, memory, part};
}

/** The same in one piece. */
template <class T>
std::vector<T> Gather(const Selection &selection, const std::vector<size_t> &count, const T *values)
{
    std::vector<T> gathered(ElementsOf(count));
    const Runs runs = RunsOf(selection, count);
    runs.Copy(reinterpret_cast<const char *>(values + runs.SourceBegin()),
              reinterpret_cast<char *>(gathered.data()), sizeof(T));
    return gathered;
}

/** The same in a GPU's memory, or all of it. */
template <class T>
std::vector<DeviceRows> RowsOf(const Selection &selection, const std::vector<size_t> &count,
                               const T *values)
{
    const size_t elements = ElementsOf(count);
    const auto first = reinterpret_cast<const char *>(values);
    if (!selection.HasMemory)
    {
        return {{first, elements * sizeof(T), 1, elements * sizeof(T)}};
    }
    const Runs runs = RunsOf(selection, count);
    std::vector<DeviceRows> rows;
    runs.EachGroup(
        [&](const size_t position, const size_t number, const size_t distance)
        {
            rows.push_back({first + position * sizeof(T), runs.Length() * sizeof(T), number,
                            distance * sizeof(T)});
        });
    return rows;
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

/** ADIOS2's MemorySpace::Detect and GPU, which not all of its builds declare. */
constexpr auto Unknown = static_cast<adios2::MemorySpace>(0);
constexpr auto Gpu = static_cast<adios2::MemorySpace>(2);

/** A single value in a GPU's memory. */
template <class T>
T OneOf(const T *value, void *stream)
{
    if constexpr (std::is_trivially_copyable_v<T>)
    {
        const auto first = reinterpret_cast<const char *>(value);
        T copy;
        std::memcpy(&copy, DeviceQueue(stream).Read({{first, sizeof(T), 1, sizeof(T)}}), sizeof(T));
        return copy;
    }
    return *value;
}

/** Memory that a variable is said to have on a GPU can't be read unless there is who copies it. */
template <class T>
bool NeedsCopy(adios2::Variable<T> variable, const T *values)
{
    if (IsOnDevice(values))
    {
        // An ADIOS2 that is built for GPUs turns the dimensions of a row-major variable round as
        // soon as it knows where its memory is.
        if (variable.GetMemorySpace() == Unknown)
        {
            variable.SetMemorySpace(Gpu);
        }
        return true;
    }
    if (variable.GetMemorySpace() == Gpu && !GpuRuntime::IsHere())
    {
        throw std::invalid_argument("bbflow: " + variable.Name() +
                                    " is in a GPU's memory, but the program has loaded neither "
                                    "CUDA nor HIP to copy it: Put it from the host's memory");
    }
    return false;
}

/** A block of a variable, by name and place. */
template <class T>
std::string NameOf(const adios2::Variable<T> &variable)
{
    std::string name = variable.Name();
    for (const std::vector<size_t> &dims : {variable.Start(), variable.Count()})
    {
        name += "/";
        for (const size_t dim : dims)
        {
            name += " " + std::to_string(dim);
        }
    }
    return name;
}

} // end empty namespace

Writer::Writer(const Program &program)
: m_IO(program.Io), m_IsColumnMajor(program.IsColumnMajor), m_KeepOpen(program.Parameters.KeepOpen),
  m_IsKept(m_KeepOpen || KeptStreams::Has(program.Parameters)),
  m_Stream(m_IsKept ? KeptStreams::Take(program.Parameters)
                    : std::make_unique<OpenStream>(program.Parameters))
{
    m_Stream->BeginFile(program.File, program.Mode == adios2::Mode::Append);
}

Writer::~Writer()
{
    if (m_Closed)
    {
        return;
    }
    TellRefused();
    try
    {
        m_Stream->Abort();
    }
    catch (const std::exception &)
    {
        // The agent is gone: it has seen the end of the connection, which means the same.
    }
    if (m_IsKept)
    {
        KeptStreams::Forget(m_Stream->Given());
    }
}

template <class Name, class Action>
auto Writer::Try(const Name &name, const Action &action)
{
    try
    {
        return action();
    }
    catch (const std::exception &error)
    {
        m_Refused.try_emplace(name(), error.what());
        throw;
    }
}

template <class T, class Action>
void Writer::TryPut(const adios2::Variable<T> &variable, const Action &action)
{
    const auto name = [&] { return NameOf(variable); };
    Try(name, action);
    if (!m_Refused.empty())
    {
        m_Refused.erase(name());
    }
}

void Writer::TellRefused() noexcept
{
    for (const auto &[name, why] : m_Refused)
    {
        TellRefusal(m_Stream->Given(), why);
    }
    m_Refused.clear();
}

adios2::StepStatus Writer::BeginStep(const adios2::StepMode mode, const float timeoutSeconds)
{
    TellRefused();
    return Try([] { return "BeginStep"; },
               [&]
               {
                   if (mode != adios2::StepMode::Append)
                   {
                       throw std::invalid_argument("bbflow: BeginStep takes StepMode::Append only");
                   }
                   if (m_Stream->IsInStep())
                   {
                       throw std::logic_error("bbflow: BeginStep was called twice without EndStep");
                   }
                   return m_Stream->Begin(After(timeoutSeconds)) ? adios2::StepStatus::OK
                                                                 : adios2::StepStatus::NotReady;
               });
}

template <class T>
void Writer::Put(const adios2::Variable<T> &variable, const T *values, const Selection &selection,
                 const When when)
{
    TryPut(variable,
           [&]
           {
               bool isOnDevice = false;
               if constexpr (!std::is_same_v<T, std::string>)
               {
                   isOnDevice = NeedsCopy(variable, values);
               }
               Land(variable, values, selection, when, isOnDevice);
           });
}

template <class T>
void Writer::Land(const adios2::Variable<T> &variable, const T *values, const Selection &selection,
                  const When when, const bool isOnDevice)
{
    if (!m_Stream->IsInStep())
    {
        m_Stream->Begin(std::nullopt); // a program without BeginStep writes one step
    }
    Block block;
    block.Form = FormOf(variable);
    const adios2::ShapeID kind = variable.ShapeID();
    if (std::is_same_v<T, std::string> || kind == adios2::ShapeID::GlobalValue ||
        kind == adios2::ShapeID::LocalValue)
    {
        // Its memory may be gone when this call returns (Python's scalars are temporaries).
        block.Single = NumberOf(isOnDevice ? OneOf(values, m_Stream->Given().GpuStream) : *values);
        m_Stream->Put(std::move(block), when);
        return;
    }
    const size_t elements = ElementsOf(block.Form.Count);
    if constexpr (!std::is_same_v<T, std::string>)
    {
        if (elements > 0)
        {
            if (kind == adios2::ShapeID::GlobalArray)
            {
                CheckInShape(block.Form);
            }
            if (m_IsColumnMajor)
            {
                Reverse(block.Form); // as a reader in row-major order sees it
            }
            block.Bytes = elements * sizeof(T);
            block.Look = MakeScan<T>();
            const Selection ours = m_IsColumnMajor ? Reversed(selection) : selection;
            if (isOnDevice)
            {
                block.OnDevice = RowsOf(ours, block.Form.Count, values);
            }
            else if (ours.HasMemory)
            {
                const std::vector<T> gathered = Gather(ours, block.Form.Count, values);
                block.Source = reinterpret_cast<const char *>(gathered.data());
                m_Stream->Put(std::move(block), When::AtOnce);
                return;
            }
            block.Source = reinterpret_cast<const char *>(values);
            m_Stream->Put(std::move(block), when);
        }
    }
}

template <class T>
void Writer::PutSpan(const adios2::Variable<T> &variable,
                     const typename adios2::Variable<T>::Span &span, const Selection &selection,
                     const T *fill)
{
    TryPut(variable,
           [&]
           {
               const adios2::ShapeID kind = variable.ShapeID();
               if (selection.HasMemory || kind == adios2::ShapeID::GlobalValue ||
                   kind == adios2::ShapeID::LocalValue)
               {
                   throw std::invalid_argument(
                       "bbflow: " + variable.Name() +
                       " was Put as a span, but it is a single value, or a part of a "
                       "memory: Put it from your own memory");
               }
               const size_t elements = ElementsOf(variable.Count());
               auto *const values =
                   static_cast<T *>(m_Spans.Place(span, elements, elements * sizeof(T)));
               if (values == nullptr)
               {
                   throw std::invalid_argument(
                       "bbflow: " + variable.Name() +
                       " was Put as a span, which needs 'bbflow run', or "
                       "bbflow_adios2.environment(): else Put it from your own "
                       "memory");
               }
               if (fill != nullptr)
               {
                   std::fill_n(values, elements, *fill);
               }
               Land(variable, values, selection, When::Filled);
           });
}

void Writer::PerformPuts()
{
    if (m_Stream->IsInStep())
    {
        Try([] { return "PerformPuts"; }, [&] { m_Stream->PerformPuts(); });
    }
}

void Writer::EndStep()
{
    Try([] { return "EndStep"; }, [&] { Finish(); });
    TellRefused();
}

void Writer::Finish()
{
    if (!m_Stream->IsInStep())
    {
        throw std::logic_error("bbflow: EndStep was called without BeginStep");
    }
    m_Stream->EndStep(m_IO);
    m_Spans.Free();
}

void Writer::Close()
{
    if (m_Stream->IsInStep())
    {
        EndStep();
    }
    TellRefused();
    m_Stream->EndFile(m_IO);
    if (m_KeepOpen)
    {
        KeptStreams::Keep(std::move(m_Stream));
    }
    else
    {
        m_Stream->Close();
        if (m_IsKept)
        {
            KeptStreams::Forget(m_Stream->Given());
        }
    }
    m_Closed = true;
}

#define instantiate(T)                                                                             \
    template void Writer::Put(const adios2::Variable<T> &, const T *, const Selection &, When);
ADIOS2_FOREACH_STDTYPE_1ARG(instantiate)
#undef instantiate

#define instantiate(T)                                                                             \
    template void Writer::PutSpan(const adios2::Variable<T> &,                                     \
                                  const typename adios2::Variable<T>::Span &, const Selection &,   \
                                  const T *);
ADIOS2_FOREACH_PRIMITIVE_STDTYPE_1ARG(instantiate)
#undef instantiate

} // end namespace bbflow
