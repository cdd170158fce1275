#pragma once

namespace bbflow
{

/** What a kernel gets as its one argument: blocks of a GPU's memory that are put together, or
 * looked at. Compilers that have no headers read this, too. */
struct PackTask
{
    /** Rows of values, which are as far from each other. */
    struct Part
    {
        const char *First;
        unsigned long long RowBytes, Rows, PitchBytes;
    };
    static constexpr unsigned Most = 32; ///< parts
    static constexpr unsigned BlockThreads = 128;

    unsigned Parts;
    unsigned Blocks; ///< of threads
    void *Target;    ///< gets all values, one part behind the other; null: nothing
    void *Ranges;    ///< gets each thread's smallest and largest value that isn't NaN
    Part Which[Most];
};

} // end namespace bbflow
