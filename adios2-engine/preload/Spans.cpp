/** Spans of plugins' engines. A span asks its engine where its memory is each time, and ADIOS2's
 * engine around plugins answers nothing. It also keeps one span for each variable, whatever the
 * program Puts. So each such span is a copy with its address in it, and what it asks is answered
 * here. Spans of other engines are as they were. */

#include "../src/SpanPlace.h"
#include "Core.h"

#include <cstring>

#define BBFLOW_EXPORT __attribute__((visibility("default")))

namespace bbflow
{

namespace
{

/** Stands where a span has the number of its buffer, of which no engine has so many. */
constexpr int InMemory = 0x62626277;

/** What adios2::core::Span<T> holds. */
template <class T>
struct Span
{
    size_t Extremes[2];
    size_t Position;
    int Buffer;
    T Value;
    void *Engine;
    size_t Size;
};

template <class T>
struct Complex
{
    T Parts[2];
};

/** The Put that is under way. */
struct Putting
{
    void *Engine;
    /** Where a span of its type has its engine and its size. */
    size_t EngineAt, SizeAt;
    void *Memory;
};

thread_local Putting *Current = nullptr;

/** The real functions for engines of one class, which all are of one library. */
struct Real
{
    const void *Class;
    void *Function;
};

void *RealOf(Real &last, const void *engine, const char *name, const void *caller)
{
    const void *own = *static_cast<const void *const *>(engine);
    if (last.Class != own)
    {
        last = {own, Core(caller).Find(name)};
    }
    return last.Function;
}

template <class T>
void *Put(void *engine, void *variable, bool initialize, const void *value, Real &last,
          const char *name, const void *caller)
{
    Putting putting{engine, offsetof(Span<T>, Engine), offsetof(Span<T>, Size), nullptr};
    Putting *const outer = Current;
    struct Restored
    {
        Putting *Outer;
        ~Restored() { Current = Outer; }
    } restored{outer};
    Current = &putting;
    using Function = void *(*)(void *, void *, bool, const void *);
    const auto real = reinterpret_cast<Function>(RealOf(last, engine, name, caller));
    void *span = real(engine, variable, initialize, value);
    return putting.Memory == nullptr ? span : static_cast<char *>(putting.Memory) - SpanHeaderBytes;
}

void *Data(void *engine, int buffer, size_t position, size_t id, Real &last, const char *name,
           const void *caller)
{
    if (buffer == InMemory)
    {
        return reinterpret_cast<void *>(position);
    }
    using Function = void *(*)(void *, int, size_t, size_t);
    return reinterpret_cast<Function>(RealOf(last, engine, name, caller))(engine, buffer, position,
                                                                          id);
}

} // end empty namespace

} // end namespace bbflow

extern "C" BBFLOW_EXPORT bool bbflow_place_span(void *span, void *memory, size_t elements)
{
    using namespace bbflow;
    char *const own = static_cast<char *>(span);
    auto &head = *static_cast<Span<char> *>(span);
    if (Current == nullptr)
    {
        return false;
    }
    // One that was placed before may be of an engine that is closed: it stays with its variable.
    const bool isNew = head.Buffer == -1 && head.Position == 0 &&
                       std::memcmp(own + Current->EngineAt, &Current->Engine, sizeof(void *)) == 0;
    if (!isNew && head.Buffer != InMemory)
    {
        return false;
    }
    static_assert(sizeof(Span<long double>) <= SpanHeaderBytes);
    std::memcpy(own + Current->EngineAt, &Current->Engine, sizeof(void *));
    head.Buffer = InMemory;
    head.Position = reinterpret_cast<size_t>(memory);
    std::memcpy(own + Current->SizeAt, &elements, sizeof elements);
    std::memcpy(static_cast<char *>(memory) - SpanHeaderBytes, own,
                Current->SizeAt + sizeof elements);
    Current->Memory = memory;
    return true;
}

/** The functions as compilers mangle them, for a type that is written in the mangled name as `code`
 * and counts as one or two of its parts. */
#define BBFLOW_SPANS(id, code, T, variable, value)                                                 \
    extern "C" BBFLOW_EXPORT void *bbflow_put_##id(void *, void *, bool, const void *) __asm__(    \
        BBFLOW_ENGINE "3PutI" code "EERNS0_8VariableIT_E4SpanER" variable "_bRK" value "_");       \
    extern "C" void *bbflow_put_##id(void *engine, void *own, bool initialize, const void *fill)   \
    {                                                                                              \
        static thread_local bbflow::Real last{};                                                   \
        return bbflow::Put<T>(engine, own, initialize, fill, last,                                 \
                              BBFLOW_ENGINE "3PutI" code "EERNS0_8VariableIT_E4SpanER" variable    \
                                            "_bRK" value "_",                                      \
                              __builtin_return_address(0));                                        \
    }                                                                                              \
    extern "C" BBFLOW_EXPORT void *bbflow_data_##id(void *, int, size_t, size_t) __asm__(          \
        BBFLOW_ENGINE "10BufferDataI" code "EEPT_imm");                                            \
    extern "C" void *bbflow_data_##id(void *engine, int buffer, size_t position, size_t number)    \
    {                                                                                              \
        static thread_local bbflow::Real last{};                                                   \
        return bbflow::Data(engine, buffer, position, number, last,                                \
                            BBFLOW_ENGINE "10BufferDataI" code "EEPT_imm",                         \
                            __builtin_return_address(0));                                          \
    }

#define BBFLOW_ENGINE "_ZN6adios24core6Engine"
BBFLOW_SPANS(char, "c", char, "S5", "S4")
BBFLOW_SPANS(int8, "a", signed char, "S5", "S4")
BBFLOW_SPANS(int16, "s", short, "S5", "S4")
BBFLOW_SPANS(int32, "i", int, "S5", "S4")
BBFLOW_SPANS(int64, "l", long, "S5", "S4")
BBFLOW_SPANS(uint8, "h", unsigned char, "S5", "S4")
BBFLOW_SPANS(uint16, "t", unsigned short, "S5", "S4")
BBFLOW_SPANS(uint32, "j", unsigned int, "S5", "S4")
BBFLOW_SPANS(uint64, "m", unsigned long, "S5", "S4")
BBFLOW_SPANS(float, "f", float, "S5", "S4")
BBFLOW_SPANS(double, "d", double, "S5", "S4")
BBFLOW_SPANS(long_double, "e", long double, "S5", "S4")
BBFLOW_SPANS(float_complex, "St7complexIfE", bbflow::Complex<float>, "S7", "S6")
BBFLOW_SPANS(double_complex, "St7complexIdE", bbflow::Complex<double>, "S7", "S6")
