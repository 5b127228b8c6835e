/* step.h - what Slurm says about one task of a step, read from the task's SLURM_* variables. Pure.
 *
 * The variables, not SPANK's items: in a heterogeneous step the items count per component, while SLURM_PROCID,
 * SLURM_NTASKS, SLURM_NODEID and SLURM_JOB_ID (the leader's) are those of the whole step. Two traps of such a step
 * (Slurm 22.05): SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE are sorted by node name, so that neither is indexed
 * by SLURM_NODEID, and the first node of the list need not be rank 0's.
 *
 * Whose word a variable is (22.05 to 26.05): slurmstepd sets SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID, SLURM_JOB_ID,
 * SLURM_STEP_ID and SLURMD_NODENAME, srun those of the step, over what a user may have set. SLURM_HET_SIZE and the
 * lists of components they leave to the user where a step has one component, and no step has a SLURM_HET_JOB_ID of
 * Slurm's. So these are looked at only where the item S_JOB_NNODES says that there are nodes of other components. */
#ifndef DDP_SPANK_STEP_H
#define DDP_SPANK_STEP_H

#include <stdint.h>

#include "runtime/base/error.h"
#include "spank/hostlist.h"
#include "spank/keys.h"
#include "topology/devices.h"

struct step {
    int rank, size, local_rank, local_size, node, n_nodes;
    uint32_t job, step, restart;
    int cpus_on_node;  /* CPUs that the step holds on this node; 0: not told */
    int cpus_per_task; /* --cpus-per-task; 0: not given */
    struct devices_facts gpus; /* borrowed from the task's variables */
    int n_gpus;                /* GPUs that this task will see; 0: none, not told, or a list that nobody can read */
    char node_name[HOSTLIST_NAME_MAX + 1];
    char master[HOSTLIST_NAME_MAX + 1]; /* first node of the step's (first component's) list */
};

/* n_own_nodes: the nodes of the step's component that the task belongs to (S_JOB_NNODES); fewer than the step's, where
 * there are several; 0: not known, and one is assumed. 0, or -1: DDP_E_BOOT with the name of a variable that is
 * missing or wrong, DDP_E_DATA for a bad list of nodes. */
int step_read(lookup_f lookup, void *arg, int n_own_nodes, struct step *ret, ddp_error_t *errp);

/* Entry `index` of a list such as "2(x3),1". 0, or -1 with DDP_E_DATA. */
int step_tasks_on(const char *tasks_per_node, int index, int *ret, ddp_error_t *errp);

#endif
