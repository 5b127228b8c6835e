/* binding.h - which CPUs a rank runs on. Pure, over what topology/cores.h found. */
#ifndef DDP_SPANK_BINDING_H
#define DDP_SPANK_BINDING_H

#include <stdbool.h>

#include "topology/cores.h"
#include "topology/cpus.h"

struct binding_facts {
    bool is_wanted;          /* bind=auto */
    bool is_users;           /* the user gave --cpu-bind (or SLURM_CPU_BIND) */
    const char *bind_list;   /* SLURM_CPU_BIND_LIST: what Slurm bound the node's tasks to, "0x3" or "0x3,0xc"; or NULL */
    int local_rank, local_size;
    int cpus_on_node;        /* CPUs that the step holds on this node; 0: not told */
    const struct cpus *mask; /* the task's present affinity */
};

struct binding {
    struct cpus cpus;  /* what the task should run on: always within the present mask, never empty where that is not */
    bool is_changed;   /* cpus differ from the present mask */
    int n_sharing;     /* local ranks that end up with these very CPUs, this one included */
    const char *why;   /* for people: "an equal share of the cores", "--cpu-bind was given", ... */
};

/* bind=auto shares the present mask among the local ranks that Slurm gave this same mask, in whole cores with all their
 * hardware threads, neighbours in hwloc's order together, sizes differing by one core at most; with more ranks than
 * cores, several ranks share one. It keeps the mask where the user asked for a binding, where Slurm gave every rank a
 * mask of its own, and where the mask is plainly not what the step holds (neither task/affinity nor task/cgroup
 * confines it): a share of the whole machine would fall on the CPUs of another job. */
struct binding binding_choose(const struct binding_facts *f, const struct cores *cores);

/* How many cores the set touches. */
size_t binding_cores(const struct cores *cores, const struct cpus *set);

#endif
