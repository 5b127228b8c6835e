/* cmdline.h - finds --ddp on srun's own command line. Pure.
 *
 * srun reads SLURM_MPI_TYPE and SLURM_KILL_BAD_EXIT before it hands an option to its plugin, so the plugin has to see
 * earlier, from /proc/self/cmdline, whether the step is to be one of ours. */
#ifndef DDP_SPANK_CMDLINE_H
#define DDP_SPANK_CMDLINE_H

#include <stddef.h>

/* args[0..n): n bytes of arguments, each ended by a null byte, args[n - 1] is one. Returns the value of the last --ddp
 * before the command (each component's, in `srun ... : ...`), or NULL. "--ddp=V", "--ddp V" and unambiguous beginnings
 * count. What an option without "=" is followed by is taken for its value, unless that is an option itself or the option
 * is known to have none; so `srun -n 4 ./train --ddp=x` has no --ddp. */
const char *cmdline_ddp(const char *args, size_t n);

#endif
