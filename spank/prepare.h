/* prepare.h - what srun sets in its own environment before Slurm acts on it, and takes out of it: srun reads some
 * variables right after slurm_spank_init, and hands all of them to its tasks. */
#ifndef DDP_SPANK_PREPARE_H
#define DDP_SPANK_PREPARE_H

#include "runtime/base/error.h"
#include "spank/keys/keys.h"

/* Set where the user asked srun for no binding of CPUs. As the next ones it begins with SLURM_, so that --export=NONE
 * keeps it. */
#define UNBOUND_VARIABLE "SLURM_DDP_UNBOUND"

struct prepare_facts {
    const char *site_file;          /* NULL: none configured */
    const void *slurm;              /* a function of Slurm's own (mpi.h) */
    void (*warn)(const char *text); /* for the user */
};

/* In srun, sbatch and salloc: started within a task of ours, they have its environment, but their step is another. So
 * what was set for that task goes, by us and by Slurm's PMIx or PMI, and the ports that Slurm reserved for it. */
void prepare_forget(void);

/* In srun's slurm_spank_init: sets what srun is to read, where its command line, or the job, asks for ddp, and its
 * command is no daemon of mpirun's (launcher.h). Errors of the option are left for its callback. */
void prepare_srun(const struct prepare_facts *f);

/* Set for the step's tasks: the number by which their port is drawn (port.h), and their secret (secret.h). */
int prepare_port(ddp_error_t *errp);

/* Set for the step's guards: the token by which they know each other (guards.h), and where they see that srun is there
 * (lifeline.h), which goes after prepare_srun with --async: it is not to be. Without the latter they do not look.
 * is_kept: this code stays loaded until the process ends. */
int prepare_guards(const struct keys *o, bool is_kept, ddp_error_t *errp);

/* Where srun may listen; {0, 0}: anywhere. */
struct port_range prepare_range(const struct keys *o);

/* getenv, as a lookup_f. */
const char *prepare_lookup(const char *name, void *arg);

#endif
