/* cmdline.h - finds --ddp and some of srun's own options on srun's command line. Pure.
 *
 * Why the plugin reads /proc/self/cmdline: srun reads SLURM_MPI_TYPE and SLURM_KILL_BAD_EXIT before it passes an option
 * to a plugin, so the plugin must know earlier whether the step uses ddp. A task cannot see that the user asked for
 * reserved ports, since with MpiParams in slurm.conf every step has some; nor which option made Slurm hide GPUs; nor
 * whether --cpu-bind was given by the user or follows from --hint and the like; nor --kill-on-bad-exit. Where --mpi is
 * given, no other MPI plugin is tried. */
#ifndef DDP_SPANK_CMDLINE_H
#define DDP_SPANK_CMDLINE_H

#include <stddef.h>

/* All point into the arguments; NULL: not given. */
struct cmdline {
    const char *ddp;        /* value of the last --ddp */
    const char *resv_ports; /* value of the last --resv-ports; "": it has none */
    const char *gpus_per_task, *ntasks_per_gpu, *tres_per_task; /* of the last one in any component */
    const char *gpu_bind, *tres_bind, *ntasks_per_node;
    const char *cpu_bind;
    const char *mpi;
    const char *async; /* "": given */
    const char *kill_on_bad_exit; /* as resv_ports; -K and -K0, too */
    const char *command; /* of the first component; what follows it in the arguments is its own */
};

/* args[0..n): n bytes of arguments, each ended by a null byte, so that args[n - 1] is one. Reads up to the command (of
 * each component, in `srun ... : ...`). "--ddp=V", "--ddp V" and unambiguous beginnings count. The word after an option
 * without "=" is taken as its value, unless that word is an option itself or the option is known to take no value; so
 * `srun -n 4 ./train --ddp=x` has no --ddp. */
struct cmdline cmdline_read(const char *args, size_t n);

#endif
