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

} // end empty namespace

RankOf RankFromLauncher()
{
    // Slurm comes last: inside an allocation its variables are there for an mpiexec's ranks too.
    constexpr Names launchers[] = {{"PMI_RANK", "PMI_SIZE"},
                                   {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                   {"PMIX_RANK", "PMIX_SIZE"},
                                   {"SLURM_PROCID", "SLURM_NTASKS"}};
    return FirstOf(launchers).value_or(RankOf{});
}

std::optional<RankOf> LocalRankFromLauncher()
{
    constexpr Names launchers[] = {{"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                   {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
                                   {"SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"}};
    return FirstOf(launchers);
}

} // end namespace bbflow
