/** Writes a field in bands of rows, one for each MPI rank, or reads it in as many bands as it has
 * ranks: `bands MODE CONFIG.xml`. */

#include <adios2.h>
#include <mpi.h>

#include <array>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

constexpr size_t Steps = 3, Rows = 13, Columns = 7;

/** The rows of one rank; with 13 of them, bands are not all of one size. */
class Band
{
public:
    explicit Band(MPI_Comm communicator)
    {
        MPI_Comm_rank(communicator, &m_Rank);
        MPI_Comm_size(communicator, &m_Ranks);
        m_First = Rows * m_Rank / m_Ranks;
        m_Count = Rows * (m_Rank + 1) / m_Ranks - m_First;
    }

    int Rank() const { return m_Rank; }
    int Ranks() const { return m_Ranks; }
    adios2::Dims Start() const { return {m_First, 0}; }
    adios2::Dims Count() const { return {m_Count, Columns}; }

    /** 1000 for each step, and the element's place in the whole field; test_mpi.py has the same. */
    std::vector<double> Values(const size_t step) const
    {
        std::vector<double> values(m_Count * Columns);
        for (size_t i = 0; i < values.size(); ++i)
        {
            values[i] = 1000.0 * step + m_First * Columns + i;
        }
        return values;
    }

private:
    int m_Rank = 0, m_Ranks = 1;
    size_t m_First = 0, m_Count = 0;
};

void WriteBand(adios2::IO &io, const Band &band)
{
    auto field = io.DefineVariable<double>("field", {Rows, Columns}, band.Start(), band.Count());
    auto writer = io.DefineVariable<int>("writer", {adios2::LocalValueDim});
    io.DefineAttribute<std::string>("units", "K", "field");
    adios2::Engine engine = io.Open("bands", adios2::Mode::Write);
    for (size_t step = 0; step < Steps; ++step)
    {
        const std::vector<double> values = band.Values(step);
        engine.BeginStep();
        engine.Put(field, values.data());
        engine.Put(writer, band.Rank());
        engine.EndStep();
    }
    engine.Close();
}

void Write(const std::string &config)
{
    adios2::ADIOS adios(config, MPI_COMM_WORLD);
    adios2::IO io = adios.DeclareIO("model");
    WriteBand(io, Band(MPI_COMM_WORLD));
}

/** Each half of the ranks writes a stream of its own, over a communicator of its own. */
void WriteInHalves(const std::string &config)
{
    const Band world(MPI_COMM_WORLD);
    const int half = 2 * world.Rank() / world.Ranks();
    MPI_Comm communicator;
    MPI_Comm_split(MPI_COMM_WORLD, half, world.Rank(), &communicator);
    {
        const Band band(communicator);
        adios2::ADIOS adios(config, communicator);
        adios2::IO io = adios.DeclareIO("model");
        io.SetParameter("Stream", "half-" + std::to_string(half));
        io.SetParameter("Rank", std::to_string(band.Rank()));
        io.SetParameter("Writers", std::to_string(band.Ranks()));
        WriteBand(io, band);
    }
    MPI_Comm_free(&communicator);
}

/** What a rank has read. */
enum Seen
{
    StepsSeen,
    ValuesSeen,
    ValuesWrong,
    SeenCount
};
using Counts = std::array<unsigned long, SeenCount>;

void Compare(const std::vector<double> &values, const std::vector<double> &expected, Counts &counts)
{
    if (values.size() != expected.size())
    {
        throw std::runtime_error("a Get gave " + std::to_string(values.size()) + " values");
    }
    for (size_t i = 0; i < values.size(); ++i)
    {
        counts[ValuesWrong] += values[i] != expected[i];
    }
    counts[ValuesSeen] += values.size();
}

Counts ReadBand(adios2::IO &io, const Band &band)
{
    adios2::Engine engine = io.Open("bands", adios2::Mode::Read);
    Counts counts{};
    while (engine.BeginStep() == adios2::StepStatus::OK)
    {
        auto field = io.InquireVariable<double>("field");
        field.SetSelection({band.Start(), band.Count()});
        std::vector<double> values;
        engine.Get(field, values);
        engine.EndStep();
        Compare(values, band.Values(counts[StepsSeen]), counts);
        ++counts[StepsSeen];
    }
    engine.Close();
    return counts;
}

void Read(const std::string &config)
{
    const Band band(MPI_COMM_WORLD);
    adios2::ADIOS adios(config, MPI_COMM_WORLD);
    adios2::IO io = adios.DeclareIO("model");
    const Counts own = ReadBand(io, band);
    Counts all{};
    MPI_Reduce(own.data(), all.data(), SeenCount, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (band.Rank() == 0)
    {
        std::cout << all[StepsSeen] << " steps, " << all[ValuesSeen] << " values, "
                  << all[ValuesWrong] << " wrong\n";
    }
}

const std::map<std::string, void (*)(const std::string &)> Modes = {
    {"write", Write}, {"write-in-halves", WriteInHalves}, {"read", Read}};

} // end empty namespace

int main(int count, char **words)
{
    if (count != 3 || Modes.count(words[1]) == 0)
    {
        std::cerr << "usage: bands MODE CONFIG.xml\n";
        return 2;
    }
    MPI_Init(&count, &words);
    try
    {
        Modes.at(words[1])(words[2]);
    }
    catch (const std::exception &error)
    {
        std::cerr << error.what() << '\n';
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
