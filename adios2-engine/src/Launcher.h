#pragma once

#include <cstddef>

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

} // end namespace bbflow
