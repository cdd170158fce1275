#pragma once

#include "Parameters.h"

#include <string>

namespace bbflow
{

/** The stream that a rank writes, and the consecutive ranks of the program that share it. */
struct StreamShare
{
    std::string Stream;
    size_t FirstRank = 0;
    size_t Ranks = 1;
};

/** Replaces `{rank}` and `{group}` in the stream's name: patterns N-N and N-m, else N-1. */
StreamShare ShareOf(const Parameters &parameters);

} // end namespace bbflow
