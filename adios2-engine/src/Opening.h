#pragma once

#include <cstddef>
#include <cstdint>

extern "C"
{

    /** What a library that is preloaded in front of ADIOS2 knows of the Open that is under way in
     * this thread, and ADIOS2 itself doesn't tell a plugin. Texts live as long as the Open. */
    struct bbflow_opening
    {
        /** Layout of this record: another number means that it is of another version of bbflow. */
        unsigned version;
        /** Name of the IO; null if unknown. */
        const char *io;
        /** As the program gave it to Open. */
        const char *file;
        /** adios2::Mode, as a number. */
        int mode;
        /** Of the communicator that opens; size 0 if it isn't one of MPI, or unknown. */
        size_t rank, size;
        /** Host language of the IO, as ADIOS2 names it ("C++", "Fortran", …); null if unknown. */
        const char *language;
        /** Whether arrays of the IO are column-major: 1, 0, or -1 if unknown. */
        int column_major;
        /** For each rank of the communicator its host, as HostNumber calls it; null if unknown. */
        const size_t *hosts;
        /** For an Open to read: the stream that holds what the program has written under this name,
         * of which there is no file; null if there is none. */
        const char *written_to;
    };

    /** A function of the preloaded library for the engine, which looks it up by its name: null
     * while no Open is under way in this thread. */
    const bbflow_opening *bbflow_current_opening();
}

namespace bbflow
{

constexpr unsigned OpeningVersion = 3;

/** What ranks tell each other of their hosts: a number for a name (FNV-1a, 64 bits). */
inline size_t HostNumber(const char *name)
{
    static_assert(sizeof(size_t) == sizeof(uint64_t));
    size_t number = 14695981039346656037U;
    for (; *name != '\0'; ++name)
    {
        number = (number ^ static_cast<unsigned char>(*name)) * 1099511628211U;
    }
    return number;
}

} // end namespace bbflow
