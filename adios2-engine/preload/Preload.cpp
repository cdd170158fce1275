/** A library for LD_PRELOAD that stands in front of adios2::core::IO::Open: it says which engine an
 * IO gets, and tells that engine what ADIOS2 doesn't tell a plugin. It is loaded into every process
 * of a run, shells and launchers too, so it needs the C library alone, does nothing until somebody
 * calls Open or Puts a span, and exports nothing but the functions below and those of Spans.cpp. */

#include "../src/Opening.h"
#include "Core.h"
#include "Rules.h"
#include "Written.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

#define BBFLOW_EXPORT __attribute__((visibility("default")))

namespace bbflow
{

namespace
{

/** adios2::Mode. */
constexpr int Write = 1, Read = 2, Append = 3, ReadRandomAccess = 4;
/** So large grows what is noted of Opens: it is for a person to read. */
constexpr off_t MostNoted = 1 << 16;
/** The same for Opens that have failed: the run must know of some. */
constexpr off_t MostFailures = MostNoted + (1 << 14);

thread_local const bbflow_opening *Current = nullptr;

/** Notes for `bbflow run` what the program opens, should no stream come. */
void Note(const bbflow_opening &opening, const char *kind, const off_t most = MostNoted)
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
    if (lseek(file, 0, SEEK_END) < most && write(file, line, static_cast<size_t>(length)) != length)
    {
        // Then the one line is missing.
    }
    close(file);
}

/** Whether an engine makes a folder of its file, as BP4, BP5 and the default do. */
bool MakesFolder(const char *engine)
{
    constexpr const char *others[] = {"BP3",     "HDF5",   "SST",  "SSC",
                                      "DataMan", "Inline", "NULL", "Plugin"};
    for (const char *other : others)
    {
        if (strcasecmp(engine, other) == 0)
        {
            return false;
        }
    }
    return true;
}

/** What is so while the real Open runs, whether that returns or throws: the record for the engine,
 * and our engine if the Open is to go there. What the IO opens next is judged by itself. */
class Meanwhile
{
public:
    Meanwhile(const Core &core, void *object, const bbflow_opening &opening, const bool isOurs)
    : m_Core(core), m_Object(object), m_Outer(Current)
    {
        if (isOurs)
        {
            IoObject(object).ChangeEngine(core, "Plugin", m_Engine);
        }
        Current = &opening;
    }

    ~Meanwhile()
    {
        if (m_Failure != nullptr)
        {
            Note(*Current, m_Failure, MostFailures);
        }
        Current = m_Outer;
        if (m_Engine[0] != '\0')
        {
            m_Core.SetEngine(m_Object, m_Engine);
        }
    }

    Meanwhile(const Meanwhile &) = delete;
    Meanwhile &operator=(const Meanwhile &) = delete;

    /** The engine that the program has set; empty if that can't be told. */
    const char *Engine() const { return m_Engine; }

    /** What is noted unless the Open returns; null for nothing. */
    void NoteUnless(const char *failure) { m_Failure = failure; }

private:
    const Core &m_Core;
    void *m_Object;
    const bbflow_opening *m_Outer;
    const char *m_Failure = nullptr;
    char m_Engine[Text::Inside] = "";
};

/** Whether an Open is to read back what is in a stream, and in no file. An Open may call another
 * one, for which this was asked already.
 *  @param stream gets its name */
bool ReadsBack(const IoObject &io, const bbflow_opening &opening, char *stream, const size_t room)
{
    if (opening.mode != Read && opening.mode != ReadRandomAccess)
    {
        return false;
    }
    if (Current != nullptr && Current->written_to != nullptr)
    {
        std::snprintf(stream, room, "%s", Current->written_to);
        return true;
    }
    return io.IsKnown() && !io.HasPlugin() && IsWritten(opening.file, stream, room);
}

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
    char stream[NameRoom];
    if (ReadsBack(io, opening, stream, sizeof stream))
    {
        opening.written_to = stream;
        core.SetParameter(object, "PluginName", "bbflow");
        core.SetParameter(object, "PluginLibrary", "bbflow_adios2");
    }
    Note(opening, ruling.IsSelected() ? "selected" : writes ? "left" : "read");
    const bool isOuter = Current == nullptr;
    // Where an engine of ADIOS2's own opens, ranks are left alone.
    const bool wantsHosts = writes && opening.size > 0 && (ruling.IsSelected() || io.HasPlugin());
    Meanwhile meanwhile(core, object, opening,
                        ruling.IsSelected() || opening.written_to != nullptr);
    if (ruling.IsSelected() && isOuter)
    {
        meanwhile.NoteUnless("failed");
        // Before ranks meet: from then on each may use the folder.
        const char *into = ruling.Stream[0] != '\0' ? ruling.Stream : opening.io;
        NoteWritten(opening.file, into == nullptr ? "" : into, MakesFolder(meanwhile.Engine()));
    }
    else if (writes && isOuter)
    {
        ForgetWritten(opening.file);
    }
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    const Gathered hosts(core, wantsHosts ? comm : nullptr, HostNumber(host));
    opening.hosts = hosts.Get();
    void *opened = call(core.Find(name));
    meanwhile.NoteUnless(nullptr);
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
