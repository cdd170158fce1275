#pragma once

#include "Text.h"

#include <cstddef>

namespace bbflow
{

/** Names of adios2::core::IO::Open as compilers mangle them: up to ADIOS2 2.10, and since 2.11. */
#define BBFLOW_IO(rest) "_ZN6adios24core2IO" rest
#define BBFLOW_STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define BBFLOW_OPEN BBFLOW_IO("4OpenERK" BBFLOW_STRING "NS_4ModeE")
#define BBFLOW_OPEN_COMM BBFLOW_IO("4OpenERK" BBFLOW_STRING "NS_4ModeENS_6helper4CommE")
#define BBFLOW_OPEN_COMM_METADATA                                                                  \
    BBFLOW_IO("4OpenERK" BBFLOW_STRING "NS_4ModeENS_6helper4CommEPKcm")
#define BBFLOW_OPEN_METADATA BBFLOW_IO("4OpenERK" BBFLOW_STRING "PKcm")
/** In a build with the C++ library's texts of before GCC 5, as PyPI's 2.10 is. */
#define BBFLOW_OLD_OPEN BBFLOW_IO("4OpenERKSsNS_4ModeE")
#define BBFLOW_OLD_OPEN_COMM BBFLOW_IO("4OpenERKSsNS_4ModeENS_6helper4CommE")

/** What an engine without Flush of its own has for it: it throws. */
#define BBFLOW_FLUSH "_ZN6adios24core6Engine5FlushEi"

/** The libadios2_core that a call is meant for. A process may have several, and Python's are local:
 * no lookup among all libraries finds them.
 *
 * Objects of ADIOS2 are handed on as addresses: a class that can't be copied bit by bit, such as
 * helper::Comm or std::string, is passed by address where it is passed by value. */
class Core
{
public:
    /** @param caller an address in the code that calls Open; null takes any */
    explicit Core(const void *caller);
    ~Core();
    Core(const Core &) = delete;
    Core &operator=(const Core &) = delete;

    /** A function by its mangled name; null if this version hasn't got it. */
    void *Find(const char *name) const;

    void SetEngine(void *io, const char *engine) const;
    void SetParameter(void *io, const char *key, const char *value) const;

    /** Rank and size of a helper::Comm; size 0 if it isn't one of MPI. */
    void AskComm(const void *comm, size_t &rank, size_t &size) const;

private:
    void *m_Library;
};

/** A number from each rank of a helper::Comm of MPI. */
class Gathered
{
public:
    /** All of the communicator's ranks must come here.
     *  @param comm null gathers nothing
     *  @param own this rank's */
    Gathered(const Core &core, const void *comm, size_t own);
    ~Gathered();
    Gathered(const Gathered &) = delete;
    Gathered &operator=(const Gathered &) = delete;

    /** By rank; null if nothing was gathered, or this version can't. */
    const size_t *Get() const { return m_Numbers.Data; }

private:
    /** A std::vector<size_t> as libstdc++ lays it out. Since a function returns it that is not
     * compiled here, it may not look like what can be copied bit by bit. */
    struct Vector
    {
        size_t *Data = nullptr, *End = nullptr, *Room = nullptr;
        Vector() = default;
        Vector(const Vector &) = delete;
        Vector &operator=(const Vector &) = delete;
        ~Vector() {}
    };
    using All = Vector (*)(const void *comm, size_t own);

    static Vector Ask(const Core &core, const void *comm, size_t own);

    const Core &m_Core;
    Vector m_Numbers;
};

/** What adios2::core::IO holds, from ADIOS2 2.8 on. */
class IoObject
{
public:
    explicit IoObject(void *io);

    /** Whether the fields are where they are looked for; else nothing else may be asked. */
    bool IsKnown() const;

    const char *Name() const;
    const char *Language() const;
    /** 1, 0, or -1 if it isn't decided. */
    int ColumnMajor() const;
    /** The helper::Comm of its ADIOS, with which an Open without one opens; null if that doesn't
     * look as known. */
    const void *Comm() const;

    /** Whether a plugin is set as its engine. */
    bool HasPlugin() const;

    /** Sets the engine.
     *  @param before gets the one that was set, or nothing if that can't be told */
    void ChangeEngine(const Core &core, const char *engine, char (&before)[Text::Inside]) const;

private:
    char *m_At;
};

} // end namespace bbflow
