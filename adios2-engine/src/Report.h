#pragma once

#include <cstddef>
#include <string>

namespace bbflow
{

/** What a rank must tell its user in the end: what didn't go as it should. */
struct Report
{
    size_t Discarded = 0;
    size_t Spilled = 0;
    /** Those that a lost node held and that could not be landed again. */
    size_t Skipped = 0;
    size_t Losses = 0;

    /** One line on standard error if there is anything to tell. Every rank discards the same steps:
     *  rank 0 speaks for all of them. */
    void Print(const std::string &stream, size_t rank) const;
};

} // end namespace bbflow
