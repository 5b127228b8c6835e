/* cmdline.h - finds --ddp and some of srun's own options on its command line. Pure.
 *
 * srun reads SLURM_MPI_TYPE and SLURM_KILL_BAD_EXIT before it hands an option to its plugin, so the plugin has to see
 * earlier, from /proc/self/cmdline, whether the step is to be one of ours. srun tells no task that the user asked
 * for reserved ports: where slurm.conf has MpiParams, every step has some. Nor does it say how it came to hide GPUs,
 * or whether what it sends as --cpu-bind was the user's or follows from --hint and the like. */
#ifndef DDP_SPANK_CMDLINE_H
#define DDP_SPANK_CMDLINE_H

#include <stddef.h>

/* Point into the arguments; NULL: not given. */
struct cmdline {
    const char *ddp;        /* value of the last --ddp */
    const char *resv_ports; /* value of the last --resv-ports; "": it has none */
    const char *gpus_per_task, *ntasks_per_gpu, *tres_per_task; /* of the last one in any component */
    const char *gpu_bind, *tres_bind, *ntasks_per_node;
    const char *cpu_bind;
};

/* args[0..n): n bytes of arguments, each ended by a null byte, args[n - 1] is one. Reads up to the command (each
 * component's, in `srun ... : ...`). "--ddp=V", "--ddp V" and unambiguous beginnings count. What an option without "="
 * is followed by is taken for its value, unless that is an option itself or the option is known to have none; so
 * `srun -n 4 ./train --ddp=x` has no --ddp. */
struct cmdline cmdline_read(const char *args, size_t n);

#endif
