// What a user would register with MPI: each rank sums a part of the logical file.
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <string>
#include <unistd.h>

extern "C"
{
    void rank_sum(int in_fd, int out_fd, MPI_Comm comm)
    {
        int rank = 0, size = 0;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        double sums[2] = {0, 0}, whole[2] = {0, 0};
        FILE *in = fdopen(dup(in_fd), "rb");
        float value = 0;
        for (long at = 0; std::fread(&value, sizeof(value), 1, in) == 1; ++at)
        {
            if (at % size == rank)
            {
                sums[0] += value;
                sums[1] += 1;
            }
        }
        std::fclose(in);
        MPI_Reduce(sums, whole, 2, MPI_DOUBLE, MPI_SUM, 0, comm);
        if (rank == 0)
            dprintf(out_fd, "%.1f %.0f of %d ranks, %s %s\n", whole[0], whole[1], size,
                    std::getenv("BBFLOW_TYPE"), std::getenv("BBFLOW_SHAPE"));
    }

    void rank_say(int, int out_fd, MPI_Comm comm)
    {
        int rank = 0;
        MPI_Comm_rank(comm, &rank);
        dprintf(out_fd, "%d", rank + 1);
    }

    void rank_count(int in_fd, int out_fd, MPI_Comm comm)
    {
        int rank = 0;
        MPI_Comm_rank(comm, &rank);
        char text[10] = {};
        const auto length = read(in_fd, text, sizeof(text));
        if (rank == 0)
            dprintf(out_fd, "%zd: %s", length, text);
    }

    void rank_crash(int in_fd, int, MPI_Comm comm)
    {
        int rank = 0;
        MPI_Comm_rank(comm, &rank);
        char byte = 0;
        if (read(in_fd, &byte, 1) == 1 && rank == 0)
            *static_cast<volatile float *>(nullptr) = 1;
    }
}
