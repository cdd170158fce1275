#pragma once

#include <cstddef>

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
        /** Rank among those of the communicator that run on this host, of how many; 0 and 0 if
         * unknown. */
        size_t host_rank, host_size;
    };

    /** A function of the preloaded library for the engine, which looks it up by its name: null
     * while no Open is under way in this thread. */
    const bbflow_opening *bbflow_current_opening();
}

namespace bbflow
{

constexpr unsigned OpeningVersion = 1;

} // end namespace bbflow
