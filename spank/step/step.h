/* step.h - facts about one task of a step, read from the task's SLURM_* variables. Pure.
 *
 * Why the variables and not SPANK's items: in a heterogeneous step the items count per component, while SLURM_PROCID,
 * SLURM_STEP_NUM_TASKS, SLURM_NODEID and SLURM_JOB_ID (the leader's) are those of the whole step. (So is SLURM_NTASKS,
 * but under srun --preserve-env it is the job's.) In such a step (Slurm 22.05) SLURM_STEP_NODELIST and
 * SLURM_STEP_TASKS_PER_NODE are sorted by node name, so neither can be indexed by SLURM_NODEID, and the first node of
 * the list need not be rank 0's. Nor need it be under --distribution=arbitrary, and since 26.05 where a topology plugin
 * orders the tasks, but not SLURM_NODEID and the list. So srun asks the controller and tells its tasks
 * (FIRST_NODE_VARIABLE). In a heterogeneous step, and where no srun of ours started the tasks, it is the first node of
 * the first component's list.
 *
 * Who sets a variable (22.05 to 26.05): slurmstepd sets SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID, SLURM_JOB_ID,
 * SLURM_STEP_ID and SLURMD_NODENAME, and srun sets those of the step; both overwrite values of the user's.
 * SLURM_HET_SIZE and the lists of components keep the user's values where a step has one component, and Slurm sets
 * SLURM_HET_JOB_ID in no step. So these are read only if the item S_JOB_NNODES shows that there are nodes of other
 * components. */
#ifndef DDP_SPANK_STEP_STEP_H
#define DDP_SPANK_STEP_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "spank/keys/keys.h"
#include "spank/step/hostlist.h"
#include "topology/devices.h"

#define UNEVEN_VARIABLE "SLURM_DDP_UNEVEN" /* likewise: not as many ranks on each node, in a row */
#define FIRST_NODE_VARIABLE "SLURM_DDP_FIRST_NODE" /* from srun to its tasks: the node of rank 0 */

struct step {
    int rank, size, local_rank, local_size, n_nodes;
    int node; /* number among the step's nodes, of which rank 0's is 0; the others keep Slurm's order */
    int in_list; /* the same, but that the others keep the list's order; -1: the list has not as many nodes */
    uint32_t job, step, restart;
    int cpus_on_node;  /* CPUs that the step holds on this node; 0: not known */
    int cpus_per_task; /* --cpus-per-task; 0: not given */
    struct devices_facts gpus; /* borrowed from the task's variables */
    int n_gpus;                /* GPUs that this task will see; 0: none, not known, or a list that cannot be parsed */
    int n_unused_gpus;         /* MIG instances that it was given and will not see */
    char node_name[HOSTLIST_NAME_MAX + 1];
    char master[HOSTLIST_NAME_MAX + 1]; /* rank 0's node, or what most likely is */
    bool begins_here;                   /* this is rank 0's node, and not the first of the step's list */
};

/* n_own_nodes: the number of nodes of the step's component that the task belongs to (S_JOB_NNODES), which is less than
 * the step's if there are several components; 0: not known, and one component is assumed. Returns 0, or -1: DDP_E_BOOT
 * with the name of a variable that is missing or wrong, DDP_E_DATA for a bad list of nodes. */
int step_read(lookup_f lookup, void *arg, int n_own_nodes, struct step *ret, ddp_error_t *errp);

/* Entry `index` of a list such as "2(x3),1". 0, or -1 with DDP_E_DATA. */
int step_tasks_on(const char *tasks_per_node, int index, int *ret, ddp_error_t *errp);

#endif
