/** Writes as models with I/O tasks do, a part of the ranks over communicators of their own:
 * `tasks CONFIG WHERE FILES COLOURS`. CONFIG is an XML, or `-` for BP5 set in code; WHERE says
 * whether `adios` or `open` gets the communicator; COLOURS is a letter for each rank of all
 * programs, whose IO is `model-LETTER`: `.` for one that opens none, a capital for ranks in reverse
 * order. */

#include <adios2.h>
#include <mpi.h>

#include <cctype>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

constexpr size_t Steps = 3, Columns = 5;

/** One row for each rank, with 1000 for each step, 10 for each rank and the place in the row. */
std::vector<double> Row(const size_t step, const int rank)
{
    std::vector<double> values(Columns);
    for (size_t i = 0; i < Columns; ++i)
    {
        values[i] = 1000.0 * static_cast<double>(step) + 10.0 * rank + static_cast<double>(i);
    }
    return values;
}

void Write(adios2::ADIOS &adios, const std::string &name, MPI_Comm tasks, const bool isOpened,
           const std::string &engine, const size_t files)
{
    int rank, ranks;
    MPI_Comm_rank(tasks, &rank);
    MPI_Comm_size(tasks, &ranks);
    adios2::IO io = adios.DeclareIO("model-" + name);
    if (!engine.empty())
    {
        io.SetEngine(engine);
    }
    const adios2::Dims shape{static_cast<size_t>(ranks), Columns};
    auto field =
        io.DefineVariable<double>("field", shape, {static_cast<size_t>(rank), 0}, {1, Columns});
    for (size_t file = 0; file < files; ++file)
    {
        const std::string path = name + "." + std::to_string(file) + ".bp";
        adios2::Engine writer = isOpened ? io.Open(path, adios2::Mode::Write, tasks)
                                         : io.Open(path, adios2::Mode::Write);
        for (size_t step = 0; step < Steps; ++step)
        {
            writer.BeginStep();
            writer.Put(field, Row(file * Steps + step, rank).data(), adios2::Mode::Sync);
            writer.EndStep();
        }
        writer.Close();
    }
}

void Run(const std::string &config, const bool isOpened, const size_t files,
         const std::string &colours)
{
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (colours.size() != static_cast<size_t>(ranks))
    {
        throw std::invalid_argument("tasks: give as many colours as there are ranks");
    }
    const char mine = colours[static_cast<size_t>(rank)];
    MPI_Comm tasks;
    MPI_Comm_split(MPI_COMM_WORLD, mine == '.' ? MPI_UNDEFINED : mine,
                   std::isupper(mine) ? -rank : rank, &tasks);
    if (tasks == MPI_COMM_NULL)
    {
        return;
    }
    const std::string file = config == "-" ? "" : config;
    {
        adios2::ADIOS adios =
            isOpened ? adios2::ADIOS(file, MPI_COMM_SELF) : adios2::ADIOS(file, tasks);
        Write(adios, std::string(1, mine), tasks, isOpened, file.empty() ? "BP5" : "", files);
    }
    MPI_Comm_free(&tasks);
}

} // end empty namespace

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    try
    {
        if (count != 5)
        {
            throw std::invalid_argument("usage: tasks CONFIG adios|open FILES COLOURS");
        }
        Run(words[1], words[2] == std::string("open"), std::stoul(words[3]), words[4]);
    }
    catch (const std::exception &error)
    {
        std::cerr << error.what() << '\n';
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
