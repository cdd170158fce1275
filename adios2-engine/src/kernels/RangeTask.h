#pragma once

namespace bbflow
{

/** What the kernel that looks at blocks gets as its one argument. Compilers that have no headers
 * read this, too. */
struct RangeTask
{
    /** Rows of values, which are as far from each other. */
    struct Part
    {
        const char *First;
        unsigned long long RowBytes, Rows, PitchBytes;
        void *Ranges; ///< gets each thread's smallest and largest value that isn't NaN
    };
    static constexpr unsigned Most = 64; ///< parts
    static constexpr unsigned BlockThreads = 128;

    unsigned Parts;
    unsigned Blocks; ///< of threads, for each part
    Part Which[Most];
};

} // end namespace bbflow
