/* environment.h - the variables that each task gets. Pure.
 *
 * RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, GROUP_RANK (the same as NODE_RANK), MASTER_ADDR,
 * MASTER_PORT and OMP_NUM_THREADS, as torchrun names them; DDP_VERSION; DDP_TIMEOUT, DDP_INTERFACE and DDP_REQUEUE
 * where the step's options or the site set them; OMP_PLACES where the user asked OpenMP to bind threads and did not say
 * where; with GPUs DDP_DEVICE, CUDA_DEVICE_ORDER, NCCL_SOCKET_IFNAME and NCCL_IB_HCA; DDP_SET, which lists what was set here as
 * NAME=VALUE,NAME=VALUE (a comma within a value is %2C there, a percent sign %25).
 *
 * A variable that is there already is the user's and stays. An srun within a task of ours inherits what we set there;
 * it forgets that first (environment_forget), whether its own step is one of ours or not. */
#ifndef DDP_SPANK_ENVIRONMENT_H
#define DDP_SPANK_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "spank/keys.h"
#include "spank/port.h"
#include "spank/step.h"

#define ENVIRONMENT_VARS_MAX 24
#define ENVIRONMENT_WARNINGS_MAX 8

struct environment {
    size_t n_vars, n_warnings;
    struct {
        const char *name;
        char value[HOSTLIST_NAME_MAX + 1];
    } var[ENVIRONMENT_VARS_MAX]; /* to set, DDP_SET not among them */
    char set[4096];              /* value of DDP_SET; "" : leave it out */
    char warning[ENVIRONMENT_WARNINGS_MAX][256];
};

/* The task's CPUs as binding left them, its GPU, and what NCCL should be told. */
struct environment_place {
    size_t n_cpus, n_cores; /* of the mask */
    int n_sharing;          /* local ranks that have this very mask, this one included; at least 1 */
    int device;             /* for cudaSetDevice; -1: none */
    bool has_nvidia;        /* some of the task's GPUs are NVIDIA's */
    const char *nccl_socket_ifname, *nccl_ib_hca; /* NULL: nothing to tell */
};

/* Calls drop for every variable that `set` (the value of DDP_SET; NULL: empty) lists and that still has the listed
 * value: an enclosing step of ours set it. One that the user has changed since is the user's. */
void environment_forget(const char *set, lookup_f lookup, void *arg, void (*drop)(const char *name, void *arg));

/* Fills *ret. Warnings are for the user, and only rank 0 has any, so that each comes once: a variable of the user's
 * that contradicts the step, a MASTER_PORT within `ephemeral` (of this node), one task on a node with several GPUs,
 * fewer CPUs than SLURM_CPUS_PER_TASK says. 0, or -1 with DDP_E_USAGE or DDP_E_DATA: resv_ports without reserved ports,
 * or rank 0 on another node than the one that MASTER_ADDR would name. */
int environment_make(const struct step *step, const struct keys *o, const struct environment_place *place,
                     struct port_range ephemeral, lookup_f lookup, void *arg, struct environment *ret,
                     ddp_error_t *errp);

#endif
