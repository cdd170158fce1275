#include "Core.h"

#include <cstdio>
#include <cstdlib>

#include <climits>
#include <dlfcn.h>
#include <link.h>
#include <strings.h>

namespace bbflow
{

namespace
{

constexpr const char *SetEngineName = BBFLOW_IO("9SetEngineE" BBFLOW_STRING);
/** The same in a build with the C++ library's texts of before GCC 5. */
constexpr const char *OldSetEngineName = BBFLOW_IO("9SetEngineESs");
constexpr const char *SetParameterName = BBFLOW_IO("12SetParameterE" BBFLOW_STRING "S7_");

/** Offsets in adios2::core::IO: a reference and a shared_ptr, then these. */
constexpr size_t NameAt = 24, LanguageAt = 56, OrderAt = 88;
/** The engine's type comes after these, behind two containers. */
constexpr size_t EngineFrom = 96, EngineUpTo = 320;
/** In adios2::core::ADIOS: its language comes first, then a hash table that has its load factor,
 * which nothing changes, in the middle, and the communicator behind it. */
constexpr size_t LoadFactorAt = 64, CommAt = 88;

void *Loaded(const char *path) { return dlopen(path, RTLD_LAZY | RTLD_NOLOAD); }

/** The library that has ADIOS2's core, if a loaded one is or needs it. What only stands in front of
 * Open, as this library does, has no SetEngine. */
void *CoreSeenFrom(const char *path)
{
    void *library = Loaded(path);
    if (library == nullptr)
    {
        return nullptr;
    }
    Dl_info found;
    const void *function = dlsym(library, SetEngineName);
    function = function != nullptr ? function : dlsym(library, OldSetEngineName);
    const bool isThere = function != nullptr && dladdr(function, &found) != 0;
    dlclose(library);
    return isThere ? Loaded(found.dli_fname) : nullptr;
}

struct Nth
{
    size_t Left;
    char Path[PATH_MAX];
};

/** Takes the path only: to open a library in here may lock for ever. */
int TakeNth(dl_phdr_info *info, size_t, void *data)
{
    Nth &nth = *static_cast<Nth *>(data);
    if (nth.Left-- > 0)
    {
        return 0;
    }
    std::snprintf(nth.Path, sizeof nth.Path, "%s", info->dlpi_name);
    return 1;
}

void *CoreAmongAll()
{
    Nth nth{};
    for (size_t i = 0; nth.Left = i, dl_iterate_phdr(TakeNth, &nth) != 0; ++i)
    {
        if (void *library = nth.Path[0] == '\0' ? nullptr : CoreSeenFrom(nth.Path))
        {
            return library;
        }
    }
    return nullptr;
}

} // end empty namespace

Core::Core(const void *caller)
{
    Dl_info from;
    const bool isFound = caller != nullptr && dladdr(caller, &from) != 0;
    m_Library = isFound ? CoreSeenFrom(from.dli_fname) : nullptr;
    m_Library = m_Library != nullptr ? m_Library : CoreAmongAll();
    if (m_Library == nullptr)
    {
        std::fputs("bbflow: ADIOS2's own IO::Open isn't found: start the program with "
                   "'env -u LD_PRELOAD'\n",
                   stderr);
        std::abort();
    }
}

Core::~Core() { dlclose(m_Library); }

void *Core::Find(const char *name) const { return dlsym(m_Library, name); }

void Core::SetEngine(void *io, const char *engine) const
{
    const Text text = TextOf(engine);
    reinterpret_cast<void (*)(void *, const Text *)>(Find(SetEngineName))(io, &text);
}

void Core::SetParameter(void *io, const char *key, const char *value) const
{
    const Text first = TextOf(key), second = TextOf(value);
    reinterpret_cast<void (*)(void *, const Text *, const Text *)>(Find(SetParameterName))(
        io, &first, &second);
}

void Core::AskComm(const void *comm, size_t &rank, size_t &size) const
{
    using Number = int (*)(const void *);
    using Flag = bool (*)(const void *);
    const auto isMpi = reinterpret_cast<Flag>(Find("_ZNK6adios26helper4Comm5IsMPIEv"));
    const auto rankOf = reinterpret_cast<Number>(Find("_ZNK6adios26helper4Comm4RankEv"));
    const auto sizeOf = reinterpret_cast<Number>(Find("_ZNK6adios26helper4Comm4SizeEv"));
    rank = size = 0;
    if (comm != nullptr && isMpi && rankOf && sizeOf && isMpi(comm))
    {
        rank = static_cast<size_t>(rankOf(comm));
        size = static_cast<size_t>(sizeOf(comm));
    }
}

Gathered::Gathered(const Core &core, const void *comm, const size_t own)
: m_Core(core), m_Numbers(Ask(core, comm, own))
{
}

Gathered::~Gathered()
{
    if (m_Numbers.Data != nullptr)
    {
        reinterpret_cast<void (*)(void *)>(m_Core.Find("_ZdlPv"))(m_Numbers.Data);
    }
}

Gathered::Vector Gathered::Ask(const Core &core, const void *comm, const size_t own)
{
    const auto all = reinterpret_cast<All>(
        core.Find("_ZNK6adios26helper4Comm15AllGatherValuesImEESt6vectorIT_SaIS4_EES4_"));
    const bool canAsk = comm != nullptr && all != nullptr && core.Find("_ZdlPv") != nullptr;
    return canAsk ? all(comm, own) : Vector();
}

IoObject::IoObject(void *io) : m_At(static_cast<char *>(io)) {}

bool IoObject::IsKnown() const { return IsShortText(m_At + LanguageAt) && Language()[0] != '\0'; }

const char *IoObject::Name() const { return reinterpret_cast<const Text *>(m_At + NameAt)->Data; }

const char *IoObject::Language() const
{
    return reinterpret_cast<const Text *>(m_At + LanguageAt)->Data;
}

int IoObject::ColumnMajor() const
{
    int order;
    std::memcpy(&order, m_At + OrderAt, sizeof order);
    return order == 0 || order == 1 ? order : -1;
}

const void *IoObject::Comm() const
{
    const char *adios;
    std::memcpy(&adios, m_At, sizeof adios);
    float factor;
    std::memcpy(&factor, adios + LoadFactorAt, sizeof factor);
    const bool known = IsShortText(adios) && factor == 1.0F;
    return known ? adios + CommAt : nullptr;
}

bool IoObject::HasPlugin() const
{
    for (size_t at = EngineFrom; IsKnown() && at + sizeof(Text) <= EngineUpTo; at += sizeof(void *))
    {
        if (IsShortText(m_At + at) && strcasecmp(m_At + at + offsetof(Text, Local), "Plugin") == 0)
        {
            return true;
        }
    }
    return false;
}

void IoObject::ChangeEngine(const Core &core, const char *engine,
                            char (&before)[Text::Inside]) const
{
    // Where the type stands differs between versions: it is the text that SetEngine changes.
    char was[EngineUpTo];
    std::memcpy(was, m_At, sizeof was);
    core.SetEngine(m_At, engine);
    before[0] = '\0';
    for (size_t at = EngineFrom; IsKnown() && at + sizeof(Text) <= EngineUpTo; at += sizeof(void *))
    {
        const char *text = m_At + at + offsetof(Text, Local);
        const bool wasShort = std::memcmp(was + at, &text, sizeof text) == 0;
        if (wasShort && IsShortText(m_At + at) && std::strcmp(text, engine) == 0)
        {
            std::memcpy(before, was + at + offsetof(Text, Local), sizeof before);
            return;
        }
    }
}

} // end namespace bbflow
