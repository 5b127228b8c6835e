/* secret.h - the secret that srun draws for a step of this plugin's and hands to its tasks' environment, which nobody
 * but the user and root reads. Where it is, no token travels by what others read or write: Slurm's PMIx and PMI, the
 * store of another framework (ddp_group). */
#ifndef DDP_BASE_SECRET_H
#define DDP_BASE_SECRET_H

/* Two keys of siphash.h, in hexadecimal: one signs, from the other tokens follow (boot_card.c, boot_given.c). The name
 * begins with SLURM_, so that --export=NONE keeps it. */
#define SECRET_VARIABLE "SLURM_DDP_SECRET"
#define SECRET_LEN 64

/* The step's, where this process is one of its tasks. NULL: there is none; or mpirun has started it, which hands its
 * own environment on to ranks of its node alone. */
const char *secret_of_step(void);

#endif
