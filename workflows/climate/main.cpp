#include "Bands.h"
#include "Model.h"
#include "Options.h"
#include "Output.h"

#include <mpi.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>

using namespace climate;

namespace
{

constexpr int BadUsage = 2;

double SecondsSince(const std::chrono::steady_clock::time_point start)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void PrintProgress(const size_t done, const size_t steps)
{
    if (done * 10 / steps != (done - 1) * 10 / steps)
    {
        std::printf("climate: %zu of %zu steps\n", done, steps);
        std::fflush(stdout);
    }
}

void PrintDrift(const Totals &start, const Totals &end)
{
    std::printf("climate: heat_drift=%.3e moisture_drift=%.3e\n",
                std::abs(end.Heat / start.Heat - 1), std::abs(end.Moisture / start.Moisture - 1));
}

void CheckConfig(const std::string &name, const Bands &bands)
{
    // One rank that can't read it stops all of them, or the others would wait for it.
    if (bands.Max(std::ifstream(name) ? 0 : 1) > 0)
    {
        throw BadOption("--config " + name + " can't be read");
    }
}

void Run(const Options &options, Bands &bands)
{
    CheckConfig(options.Config, bands);
    Model model(options, bands);
    Output output(options, bands, model.Sphere(), model.Fields());
    const Totals start = model.Total();
    double compute = 0;
    double written = 0;
    size_t subSteps = 0;
    for (size_t step = 0; step < options.Steps; ++step)
    {
        const auto before = std::chrono::steady_clock::now();
        subSteps += model.Advance(step);
        compute += SecondsSince(before);
        written += output.Write(step);
        if (bands.Rank() == 0)
        {
            PrintProgress(step + 1, options.Steps);
        }
    }
    output.Close();

    const Totals end = model.Total();
    compute = bands.Max(compute);
    written = bands.Max(written);
    if (bands.Rank() == 0)
    {
        if (!options.Physics)
        {
            PrintDrift(start, end);
        }
        std::printf("climate: steps=%zu substeps=%zu compute_s=%.6f output_s=%.6f\n", options.Steps,
                    subSteps, compute, written);
    }
}

/** @return the program's exit code. */
int Main(const int argc, char **argv, const int rank)
{
    try
    {
        const Options options = Options::Parse(argc, argv);
        Bands bands(MPI_COMM_WORLD, options.Latitudes);
        // After all that may be refused: 'bbflow demo' asks so before it starts anything else.
        if (options.Help)
        {
            std::fputs(rank == 0 ? Options::Usage().c_str() : "", stdout);
            return 0;
        }
        Run(options, bands);
    }
    catch (const BadOption &error)
    {
        // Every rank finds the same fault; one line is enough.
        if (rank == 0)
        {
            std::fprintf(stderr, "climate: %s\n", error.what());
        }
        return BadUsage;
    }
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    // ADIOS2 2.12 reads settings below $HOME and crashes where a batch system hasn't set it.
    setenv("HOME", "/", 0);
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    try
    {
        const int code = Main(argc, argv, rank);
        MPI_Finalize();
        return code;
    }
    catch (const std::exception &error)
    {
        std::fprintf(stderr, "climate: rank %d: %s\n", rank, error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return 1;
}
