/*
 * A small program that writes as particle-in-cell codes do, by openPMD-api: meshes and particles of
 * ten iterations.
 *
 * openpmd_model write NAME OPTIONS put|span
 * openpmd_model read NAME linear|random: prints all values of E/x, one iteration a line
 */
#include <openPMD/openPMD.hpp>

#include <mpi.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace
{
constexpr std::uint64_t Rows = 3, Columns = 5, Particles = 4, Iterations = 10;

double FieldAt(std::uint64_t row, std::uint64_t column, std::uint64_t iteration)
{
    return static_cast<double>(row * Columns + column) +
           0.25 * static_cast<double>(iteration * iteration);
}

template <class Fill>
void Store(openPMD::RecordComponent &component, bool spans, openPMD::Offset start,
           openPMD::Extent count, Fill fill)
{
    std::uint64_t size = 1;
    for (auto length : count)
        size *= length;
    if (spans)
    {
        auto view = component.storeChunk<double>(start, count);
        auto buffer = view.currentBuffer();
        for (std::uint64_t at = 0; at < size; ++at)
            buffer[at] = fill(at);
        return;
    }
    std::shared_ptr<double> values(new double[size], [](double *all) { delete[] all; });
    for (std::uint64_t at = 0; at < size; ++at)
        values.get()[at] = fill(at);
    component.storeChunk(values, start, count);
}

void Write(const std::string &name, const std::string &options, bool spans, std::uint64_t rank,
           std::uint64_t ranks)
{
    openPMD::Series series(name, openPMD::Access::CREATE, MPI_COMM_WORLD, options);
    for (std::uint64_t number = 0; number < Iterations; ++number)
    {
        auto iteration = series.writeIterations()[number * 10];
        iteration.setTime(0.5 * static_cast<double>(number)).setDt(0.5).setTimeUnitSI(2.0);
        auto field = iteration.meshes["E"];
        field.setAxisLabels({"y", "x"}).setGridSpacing(std::vector<double>{1.0, 1.0});
        field.setUnitDimension({{openPMD::UnitDimension::L, 1},
                                {openPMD::UnitDimension::M, 1},
                                {openPMD::UnitDimension::I, -1},
                                {openPMD::UnitDimension::T, -3}});
        for (const std::string direction : {"x", "y"})
        {
            auto component = field[direction];
            component.setUnitSI(1.0);
            component.resetDataset({openPMD::Datatype::DOUBLE, {Rows * ranks, Columns}});
            const double sign = direction == "x" ? 1.0 : -1.0;
            Store(component, spans, {Rows * rank, 0}, {Rows, Columns}, [&](std::uint64_t at)
                  { return sign * FieldAt(Rows * rank + at / Columns, at % Columns, number); });
        }
        auto momentum = iteration.particles["e"]["momentum"]["x"];
        momentum.resetDataset({openPMD::Datatype::DOUBLE, {Particles * ranks}});
        Store(momentum, spans, {Particles * rank}, {Particles},
              [&](std::uint64_t at) { return FieldAt(0, Particles * rank + at, number); });
        iteration.close();
    }
    series.close();
}

void Read(const std::string &name, bool isLinear)
{
    openPMD::Series series(name,
                           isLinear ? openPMD::Access::READ_LINEAR : openPMD::Access::READ_ONLY);
    for (auto iteration : series.readIterations())
    {
        auto component = iteration.meshes["E"]["x"];
        const auto values = component.loadChunk<double>();
        series.flush();
        const auto shape = component.getExtent();
        for (std::uint64_t at = 0; at < shape[0] * shape[1]; ++at)
            std::printf("%.17g ", values.get()[at]);
        std::printf("\n");
        iteration.close();
    }
}
} // namespace

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.at(0) == "write")
        Write(words.at(1), words.at(2), words.at(3) == "span", static_cast<std::uint64_t>(rank),
              static_cast<std::uint64_t>(ranks));
    else
        Read(words.at(1), words.at(2) == "linear");
    MPI_Finalize();
    return 0;
}
