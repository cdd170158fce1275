#pragma once

#include <cstddef>
#include <string>

namespace bbflow
{

/** What a rank must tell its user in the end: steps that didn't land as they should. */
struct Report
{
    size_t Discarded = 0;
    size_t Spilled = 0;
    size_t Skipped = 0;

    /** One line on standard error if there is anything to tell. Every rank discards the same steps:
     *  rank 0 speaks for all of them. */
    void Print(const std::string &stream, size_t rank) const;
};

} // end namespace bbflow
