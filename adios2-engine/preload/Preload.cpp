/** A library for LD_PRELOAD that stands in front of adios2::core::IO::Open: it says which engine an
 * IO gets, and tells that engine what ADIOS2 doesn't tell a plugin. It is loaded into every process
 * of a run, shells and launchers too, so it needs the C library alone, does nothing until somebody
 * calls Open or Puts a span, and exports nothing but the functions below and those of Spans.cpp. */

#include "../src/Opening.h"
#include "Core.h"
#include "Rules.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#define BBFLOW_EXPORT __attribute__((visibility("default")))

namespace bbflow
{

namespace
{

/** adios2::Mode. */
constexpr int Write = 1, Read = 2, Append = 3;
/** So large grows what is noted of Opens: it is for a person to read. */
constexpr off_t MostNoted = 1 << 16;

thread_local const bbflow_opening *Current = nullptr;

/** Tells `bbflow run` what the program opens, should it wonder why no stream comes. */
void Note(const bbflow_opening &opening, const char *kind)
{
    const char *path = std::getenv("BBFLOW_OPENS");
    const int file = path == nullptr || opening.rank > 0 ? -1 : open(path, O_WRONLY | O_APPEND);
    if (file < 0)
    {
        return;
    }
    char line[1024];
    const int length = std::snprintf(line, sizeof line, "%s\t%.400s\t%.400s\n", kind,
                                     opening.io == nullptr ? "" : opening.io, opening.file);
    if (lseek(file, 0, SEEK_END) < MostNoted &&
        write(file, line, static_cast<size_t>(length)) != length)
    {
        // Then the one line is missing.
    }
    close(file);
}

/** What is so while the real Open runs, whether that returns or throws: the record for the engine,
 * and the engine that a rule has set. What the IO opens next is judged by itself. */
class Meanwhile
{
public:
    Meanwhile(const Core &core, void *object, const bbflow_opening &opening, const bool selected)
    : m_Core(core), m_Object(object), m_Outer(Current)
    {
        if (selected)
        {
            IoObject(object).ChangeEngine(core, "Plugin", m_Engine);
        }
        Current = &opening;
    }

    ~Meanwhile()
    {
        Current = m_Outer;
        if (m_Engine[0] != '\0')
        {
            m_Core.SetEngine(m_Object, m_Engine);
        }
    }

    Meanwhile(const Meanwhile &) = delete;
    Meanwhile &operator=(const Meanwhile &) = delete;

private:
    const Core &m_Core;
    void *m_Object;
    const bbflow_opening *m_Outer;
    /** The program's own; empty if it can't be told, or isn't changed. */
    char m_Engine[Text::Inside] = "";
};

/** Calls the real Open with all that is to be known and set around it.
 *  @param comm the helper::Comm; null if there is none
 *  @param call gets the address of the real one */
template <class Call>
void *Around(void *object, const Text &file, const int mode, const void *comm, const char *name,
             const void *caller, const Call &call)
{
    const Core core(caller);
    const IoObject io(object);
    bbflow_opening opening{};
    opening.version = OpeningVersion;
    opening.io = io.IsKnown() ? io.Name() : nullptr;
    opening.file = file.Data;
    opening.mode = mode;
    opening.language = io.IsKnown() ? io.Language() : nullptr;
    opening.column_major = io.IsKnown() ? io.ColumnMajor() : -1;
    const bool asksAdios = comm == nullptr && io.IsKnown();
    core.AskComm(asksAdios ? io.Comm() : comm, opening.rank, opening.size);

    const bool writes = mode == Write || mode == Append;
    const Ruling ruling = writes ? ApplyRules(core, object, opening.io, opening.file) : Ruling{};
    // Where an engine of ADIOS2's own opens, ranks are left alone.
    const bool wantsHosts = writes && opening.size > 0 && (ruling.IsSelected() || io.HasPlugin());
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    const Gathered hosts(core, wantsHosts ? comm : nullptr, HostNumber(host));
    opening.hosts = hosts.Get();
    Note(opening, ruling.IsSelected() ? "selected" : mode == Read ? "read" : "left");
    const Meanwhile meanwhile(core, object, opening, ruling.IsSelected());
    void *opened = call(core.Find(name));
    NoteOpened(ruling);
    return opened;
}

/** Calls the real Open of a build whose texts can't be handed on: nothing of it is selected.
 *  @param file a pointer to the characters, as such a text is */
template <class... Given>
void *AroundOld(void *object, const char *const &file, const int mode, const char *name,
                const void *caller, Given... given)
{
    bbflow_opening opening{};
    opening.file = file;
    Note(opening, mode == Read ? "read" : "old");
    using Open = void *(*)(void *, const char *const &, int, Given...);
    return reinterpret_cast<Open>(Core(caller).Find(name))(object, file, mode, given...);
}

/** Whether an object is ADIOS2's engine around a plugin, by the name of its class (Itanium C++ ABI,
 * 2.5.2 and 2.9.5). */
bool IsPluginEngine(const void *engine)
{
    const auto *const table = *static_cast<const void *const *const *>(engine);
    const auto *const type = static_cast<const char *const *>(table[-1]);
    return std::strcmp(type[1], "N6adios26plugin12PluginEngineE") == 0;
}

} // end empty namespace

} // end namespace bbflow

extern "C"
{

    BBFLOW_EXPORT void bbflow_flush(void *, int) __asm__(BBFLOW_FLUSH);

    /** ADIOS2's Python flushes all engines when it closes one. What plugins write can't be flushed,
     * and ADIOS2 throws. Steps that land have done so when EndStep returns. */
    void bbflow_flush(void *engine, int transport)
    {
        if (!bbflow::IsPluginEngine(engine))
        {
            const bbflow::Core core(__builtin_return_address(0));
            reinterpret_cast<void (*)(void *, int)>(core.Find(BBFLOW_FLUSH))(engine, transport);
        }
    }

    BBFLOW_EXPORT const bbflow_opening *bbflow_current_opening() { return bbflow::Current; }

    BBFLOW_EXPORT void *bbflow_open(void *, const bbflow::Text &, int) __asm__(BBFLOW_OPEN);
    BBFLOW_EXPORT void *bbflow_open_comm(void *, const bbflow::Text &, int,
                                         void *) __asm__(BBFLOW_OPEN_COMM);
    BBFLOW_EXPORT void *bbflow_open_comm_metadata(void *, const bbflow::Text &, int, void *,
                                                  const char *,
                                                  size_t) __asm__(BBFLOW_OPEN_COMM_METADATA);
    BBFLOW_EXPORT void *bbflow_open_metadata(void *, const bbflow::Text &, const char *,
                                             size_t) __asm__(BBFLOW_OPEN_METADATA);

    void *bbflow_open(void *io, const bbflow::Text &file, int mode)
    {
        return bbflow::Around(io, file, mode, nullptr, BBFLOW_OPEN, __builtin_return_address(0),
                              [&](void *real)
                              {
                                  using Open = void *(*)(void *, const bbflow::Text &, int);
                                  return reinterpret_cast<Open>(real)(io, file, mode);
                              });
    }

    void *bbflow_open_comm(void *io, const bbflow::Text &file, int mode, void *comm)
    {
        return bbflow::Around(io, file, mode, comm, BBFLOW_OPEN_COMM, __builtin_return_address(0),
                              [&](void *real)
                              {
                                  using Open = void *(*)(void *, const bbflow::Text &, int, void *);
                                  return reinterpret_cast<Open>(real)(io, file, mode, comm);
                              });
    }

    void *bbflow_open_comm_metadata(void *io, const bbflow::Text &file, int mode, void *comm,
                                    const char *metadata, size_t size)
    {
        return bbflow::Around(
            io, file, mode, comm, BBFLOW_OPEN_COMM_METADATA, __builtin_return_address(0),
            [&](void *real)
            {
                using Open =
                    void *(*)(void *, const bbflow::Text &, int, void *, const char *, size_t);
                return reinterpret_cast<Open>(real)(io, file, mode, comm, metadata, size);
            });
    }

    void *bbflow_open_metadata(void *io, const bbflow::Text &file, const char *metadata,
                               size_t size)
    {
        return bbflow::Around(
            io, file, bbflow::Read, nullptr, BBFLOW_OPEN_METADATA, __builtin_return_address(0),
            [&](void *real)
            {
                using Open = void *(*)(void *, const bbflow::Text &, const char *, size_t);
                return reinterpret_cast<Open>(real)(io, file, metadata, size);
            });
    }

    BBFLOW_EXPORT void *bbflow_old_open(void *, const char *const &, int) __asm__(BBFLOW_OLD_OPEN);
    BBFLOW_EXPORT void *bbflow_old_open_comm(void *, const char *const &, int,
                                             void *) __asm__(BBFLOW_OLD_OPEN_COMM);

    void *bbflow_old_open(void *io, const char *const &file, int mode)
    {
        return bbflow::AroundOld(io, file, mode, BBFLOW_OLD_OPEN, __builtin_return_address(0));
    }

    void *bbflow_old_open_comm(void *io, const char *const &file, int mode, void *comm)
    {
        return bbflow::AroundOld(io, file, mode, BBFLOW_OLD_OPEN_COMM, __builtin_return_address(0),
                                 comm);
    }

} // extern "C"
