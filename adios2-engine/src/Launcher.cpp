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

} // end empty namespace

RankOf RankFromLauncher()
{
    // Slurm comes last: inside an allocation its variables are there for an mpiexec's ranks too.
    constexpr const char *launchers[][2] = {{"PMI_RANK", "PMI_SIZE"},
                                            {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                            {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                            {"PMIX_RANK", "PMIX_SIZE"},
                                            {"SLURM_PROCID", "SLURM_NTASKS"}};
    for (const auto &[rankName, sizeName] : launchers)
    {
        const auto rank = NumberFrom(rankName);
        const auto size = NumberFrom(sizeName);
        if (rank && size && *rank < *size)
        {
            return {*rank, *size};
        }
    }
    return {};
}

} // end namespace bbflow
