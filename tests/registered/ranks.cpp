// What a user would register with MPI: what ranks say, and one that crashes.
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <unistd.h>

extern "C"
{
    void rank_say(int, int out_fd, MPI_Comm comm)
    {
        int rank = 0;
        MPI_Comm_rank(comm, &rank);
        dprintf(out_fd, "%s %s of rank %d\n", std::getenv("BBFLOW_TYPE"),
                std::getenv("BBFLOW_SHAPE"), rank);
    }

    void rank_copy(int in_fd, int out_fd, MPI_Comm comm)
    {
        int rank = 0, size = 0;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        char text[100] = {};
        const auto length = read(in_fd, text, sizeof(text) - 1);
        MPI_Barrier(comm);
        if (rank == 0)
            dprintf(out_fd, "%d ranks\n%.*s", size, int(length), text);
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
