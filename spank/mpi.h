/* mpi.h - which of Slurm's MPI plugins starts a step: what srun's --mpi is to be where the user has given none. */
#ifndef DDP_SPANK_MPI_H
#define DDP_SPANK_MPI_H

#include <stdbool.h>

/* A value for --mpi by the choice of KEY_MPI (keys.h) and by what is in the folder of Slurm's plugins; NULL: none.
 * For srun, which calls this: MPI_AUTO loads its PMIx plugin, and where that does not load (it does not find PMIx's
 * library, and Slurm has said so) *ret_is_broken is true. */
const char *mpi_choose(int choice, const char *folder, bool *ret_is_broken);

/* The folder of Slurm's plugins, by the address of a function of Slurm's own library, which lies there. 0, or -1. */
int mpi_folder(const void *function, char *ret, int size);

#endif
