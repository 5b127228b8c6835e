/* environment.h - the variables that each task gets. Pure.
 *
 * RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, GROUP_RANK (the same as NODE_RANK), MASTER_ADDR,
 * MASTER_PORT and OMP_NUM_THREADS, as torchrun names them; JAX_COORDINATOR_PORT, the same port; DDP_VERSION;
 * DDP_TIMEOUT, DDP_INTERFACE, DDP_REQUEUE and DDP_CKPT_PRIVATE where the step's options or the site set them;
 * OMP_PLACES where the user asked OpenMP to bind threads and did not say where; with one task on each node PET_NNODES,
 * PET_NODE_RANK, PET_RDZV_ENDPOINT and, with GPUs, PET_NPROC_PER_NODE, which torchrun takes in place of options; with
 * several nodes GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME; with GPUs DDP_DEVICE, CUDA_DEVICE_ORDER, NCCL_SOCKET_IFNAME
 * and NCCL_IB_HCA; with a stop DDP_END_TIME; with a guard DDP_GUARD_DOOR (door.h); with restarts DDP_RESTART and
 * TORCHELASTIC_RESTART_COUNT, the generation, and TORCHELASTIC_MAX_RESTARTS; DDP_SET, which lists what was set here as
 * NAME=VALUE,NAME=VALUE (a comma within a value is %2C there, a percent sign %25).
 *
 * A variable that is set already was set by the user and stays as it is. An srun that runs within a task of ours
 * inherits the variables that we have set for that task; the plugin in that srun first removes them
 * (environment_forget), whether the new step uses ddp or not. */
#ifndef DDP_SPANK_ENVIRONMENT_H
#define DDP_SPANK_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "spank/keys/keys.h"
#include "spank/launcher.h"
#include "spank/net/port.h"
#include "spank/step/seats.h"
#include "spank/step/step.h"

#define ENVIRONMENT_VARS_MAX 32
#define ENVIRONMENT_WARNINGS_MAX 8

struct environment {
    size_t n_vars, n_warnings;
    struct {
        const char *name;
        char value[HOSTLIST_NAME_MAX + 1];
    } var[ENVIRONMENT_VARS_MAX]; /* to be set, without DDP_SET */
    char set[4096];              /* value of DDP_SET; "": do not set it */
    int master_port;             /* 0: it is the user's own */
    char warning[ENVIRONMENT_WARNINGS_MAX][256];
    bool is_port_derived; /* MASTER_PORT, from these: */
    struct port_facts port;
    struct port_range port_range;
};

/* The task's CPUs after binding, its GPU, and the settings for NCCL. */
struct environment_place {
    size_t n_cpus, n_cores; /* of the mask */
    int n_sharing, n_same;  /* local ranks that have one of these cores; the same CPUs; this one at least */
    int device;             /* for cudaSetDevice; -1: none */
    bool has_nvidia;        /* one of the task's GPUs at least is NVIDIA's */
    const char *nccl_socket_ifname, *nccl_ib_hca; /* NULL: do not set it */
    const char *gloo_socket_ifname;               /* the same */
    enum launcher launcher; /* the task's program */
    bool has_door;          /* a guard opens one for it (door.h) */
    bool is_requeued_by_guards; /* so libddp is not to do it, too */
};

/* Calls drop for every variable that `set` (the value of DDP_SET; NULL: empty) lists and that still has the listed
 * value, so that an enclosing step of ours has set it. A variable that the user has changed since is left. */
void environment_forget(const char *set, lookup_f lookup, void *arg, void (*drop)(const char *name, void *arg));

/* Fills *ret. Warnings are for the user, and only rank 0 gives them, so that each appears once: a variable of the
 * user's that contradicts the step, a MASTER_PORT of `ephemeral` (of this node), one task on a node with several
 * GPUs, several MIG instances, fewer CPUs than SLURM_CPUS_PER_TASK says. 0, or -1 with DDP_E_USAGE or DDP_E_DATA:
 * resv_ports without reserved ports, or rank 0 is on another node than MASTER_ADDR would name. */
int environment_make(const struct step *step, const struct keys *o, const struct environment_place *place,
                     const struct port_ephemeral *ephemeral, lookup_f lookup, void *arg, struct environment *ret,
                     ddp_error_t *errp);

/* The value of one of e's variables; NULL: it has none of that name. */
const char *environment_get(const struct environment *e, const char *name);

/* Fills e->set from e's variables. */
void environment_list(struct environment *e);

/* For programs that are started again: DDP_RESTART and the like, and another MASTER_PORT where that was derived. */
void environment_renew(struct environment *e, int generation, const struct seat *s);

/* For a program whose place is not its task's: RANK and the like, MASTER_ADDR; not those that the user set. */
void environment_seat(struct environment *e, const struct seat *s);

#endif
