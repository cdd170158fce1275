#include "Launcher.h"

#include <cstdlib>
#include <optional>

namespace bbflow
{

namespace
{

std::optional<size_t> NumberFrom(const char *name)
{
    const char *text = std::getenv(name);
    if (text == nullptr || *text < '0' || *text > '9')
    {
        return std::nullopt;
    }
    return std::strtoull(text, nullptr, 10);
}

using Names = const char *[2];

/** The first pair of variables that makes sense. */
template <size_t N>
std::optional<RankOf> FirstOf(const Names (&launchers)[N])
{
    for (const auto &[rankName, sizeName] : launchers)
    {
        const auto rank = NumberFrom(rankName);
        const auto size = NumberFrom(sizeName);
        if (rank && size && *rank < *size)
        {
            return RankOf{*rank, *size};
        }
    }
    return std::nullopt;
}

/** A batch script, and what it starts without srun, has Slurm's other variables too, with the
 * allocation's number of tasks; the number of a step's tasks has only what srun started. */
constexpr const char *TasksOfStep = "SLURM_STEP_NUM_TASKS";

} // end empty namespace

RankOf RankFromLauncher()
{
    // Slurm comes last: inside a step its variables are there for an mpiexec's ranks too.
    constexpr Names launchers[] = {{"PMI_RANK", "PMI_SIZE"},
                                   {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                   {"PMIX_RANK", "PMIX_SIZE"},
                                   {"SLURM_PROCID", TasksOfStep}};
    return FirstOf(launchers).value_or(RankOf{});
}

std::optional<RankOf> LocalRankFromLauncher()
{
    constexpr Names launchers[] = {{"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                   {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"}};
    constexpr Names slurm[] = {{"SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"}};
    if (const std::optional<RankOf> local = FirstOf(launchers))
    {
        return local;
    }
    if (NumberFrom(TasksOfStep))
    {
        return FirstOf(slurm);
    }
    const bool isAlone = NumberFrom("SLURM_LOCALID") && RankFromLauncher().Writers == 1;
    return isAlone ? std::optional<RankOf>(RankOf{}) : std::nullopt;
}

} // end namespace bbflow
