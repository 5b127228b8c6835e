/* mpi.h - which of Slurm's MPI plugins starts a step: what srun's --mpi is to be where the user has given none. */
#ifndef DDP_SPANK_MPI_H
#define DDP_SPANK_MPI_H

#include <stdbool.h>

typedef bool mpi_loads_f(const char *type);

/* A value for --mpi by the choice of KEY_MPI (keys.h) and by what is in the folder of Slurm's plugins; NULL: none.
 * MPI_AUTO takes PMIx only where `loads` says that its plugin loads (it opens PMIx's library then), and else sets
 * *ret_is_broken. */
const char *mpi_choose(int choice, const char *folder, mpi_loads_f *loads, bool *ret_is_broken);

/* Whether Slurm's plugin "mpi/pmix" loads here; it stays loaded. In srun alone, which loads it anyway. */
bool mpi_loads(const char *type);

/* The folder of Slurm's plugins, by the address of a function of Slurm's own library, which lies there. 0, or -1. */
int mpi_folder(const void *function, char *ret, int size);

#endif
