#pragma once

#include <cstddef>
#include <optional>

namespace bbflow
{

/** Which rank this process is, of how many. */
struct RankOf
{
    size_t Rank = 0;
    size_t Writers = 1;
};

/** Asks the environment of the known launchers (mpich, Open MPI, PMIx, MVAPICH, Slurm); without one
 * the process is alone. */
RankOf RankFromLauncher();

/** The same among the ranks of this host; nothing if the launcher doesn't say. */
std::optional<RankOf> LocalRankFromLauncher();

} // end namespace bbflow
