/* mpibench.c - all-reduce in place over MPI, for contrib/bench/peers: the same data and the same clock as `ddp bench
 * allreduce`. usage: mpibench WARMUP ITERATIONS BYTES...; rank 0 prints a line for each size: bytes, the number of
 * wrong elements of a check, then each iteration's time in seconds, that of the slowest rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *buffer;
static double *seconds;

static void allreduce(int n)
{
    MPI_Allreduce(MPI_IN_PLACE, buffer, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Rank r puts in (i + r) % 7, whose sums are exact. */
static int count_wrong(int n, int rank, int size)
{
    int wrong = 0, all;
    for (int i = 0; i < n; i++)
        buffer[i] = (float)((i + rank) % 7);
    allreduce(n);
    for (int i = 0; i < n; i++) {
        int sum = 0;
        for (int r = 0; r < size; r++)
            sum += (i + r) % 7;
        wrong += buffer[i] != (float)sum;
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void measure(size_t bytes, int warmup, int iterations, int rank, int size)
{
    int n = (int)(bytes / sizeof *buffer);
    memset(buffer, 0, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = -warmup; i < iterations; i++) {
        double start = MPI_Wtime();
        allreduce(n);
        if (i >= 0)
            seconds[i] = MPI_Wtime() - start;
    }
    MPI_Allreduce(MPI_IN_PLACE, seconds, iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    int wrong = count_wrong(n, rank, size);
    if (rank)
        return;
    printf("%zu %d", bytes, wrong);
    for (int i = 0; i < iterations; i++)
        printf(" %.9f", seconds[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    int rank, size;
    size_t most = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int warmup = argc > 1 ? atoi(argv[1]) : -1, iterations = argc > 2 ? atoi(argv[2]) : 0;
    for (int i = 3; i < argc; i++)
        most = strtoull(argv[i], NULL, 10) > most ? strtoull(argv[i], NULL, 10) : most;
    if (warmup < 0 || iterations < 1 || !most || most > (size_t)1 << 32) {
        fprintf(stderr, "usage: mpibench WARMUP ITERATIONS BYTES...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    buffer = aligned_alloc(64, (most + 63) / 64 * 64);
    seconds = calloc((size_t)iterations, sizeof *seconds);
    if (!buffer || !seconds) {
        fprintf(stderr, "mpibench: no memory for %zu bytes\n", most);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 3; i < argc; i++)
        measure(strtoull(argv[i], NULL, 10), warmup, iterations, rank, size);
    free(buffer);
    free(seconds);
    MPI_Finalize();
    return 0;
}
