/* check.h - the parts of `ddp check`: what each rank finds out and measures (facts, speed, folder, links), and what
 * follows from it (judge, slow), which is pure. */
#ifndef DDP_RUNTIME_CLI_CHECK_CHECK_H
#define DDP_RUNTIME_CLI_CHECK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/cli/verdict/verdict.h"
#include "runtime/ddp.h"
#include "topology/inventory.h"

#define CHECK_ERROR_MAX 200

/* What a rank is and has. Sent as it is, as the structs below. */
struct check_facts {
    char host[64];           /* name of the node */
    int32_t node, local;     /* as in struct ddp_world */
    int32_t n_numas;         /* memory nodes that its CPUs are on; 0: not known */
    int32_t all_numas;       /* of the machine */
    int32_t n_gpus;          /* of the machine */
    int32_t is_step;         /* Slurm has started it */
    char plugin[32];         /* DDP_VERSION; "": not set */
    char kernel[72];
    char driver[64];         /* of NVIDIA's; "": none */
    char gpu_fault[CHECK_ERROR_MAX]; /* of the first GPU with one; "": none found */
    char library[120];       /* the libddp.so.0 that a program gets; "": none */
    uint64_t program_hash, library_hash; /* of the files' bytes; 0: not read */
    uint64_t left_bytes;     /* of memory: the machine's or the control group's, the smaller; UINT64_MAX: not known */
    uint64_t limit_bytes;    /* of the control group; UINT64_MAX: none */
    struct cpus mask;
};

struct check_speed {
    double skew_s, skew_bound_s; /* of its clock against rank 0's, and how far off that may be */
    double memory_gbs;           /* triad, all ranks at once; 0: neither this nor cpu is measured */
    double cpu;                  /* CPU time per second meanwhile */
};

/* What the first rank of each node found of the folder; all zero of the others. */
struct check_folder {
    char error[CHECK_ERROR_MAX];  /* "": it can be written */
    char warning[CHECK_ERROR_MAX];
    uint64_t free_bytes, written_bytes;
    double write_s;               /* fsync included */
    int32_t is_asked, is_other;   /* is_other: what rank 0 has made there is not to be seen */
};

/* A pair of nodes. */
struct check_link {
    int32_t a, b;              /* nodes, a < b */
    double gbs;                /* bytes of an all-reduce of two ranks per second, so each way; 0: it failed */
    double latency_s;          /* of an all-reduce of 8 bytes, the best */
    char error[CHECK_ERROR_MAX];
};

struct check {
    int size, n_nodes;
    struct check_facts *facts;   /* [size] */
    struct check_speed *speed;   /* [size] */
    struct check_folder *folder; /* [size] */
    const char *dir;             /* NULL: none was given */
    int *first;                  /* [n_nodes] the first rank of a node */
    struct check_link *link;     /* [n_links] */
    size_t n_links;
    double took_s;
};

/* ---- facts.c ---- */

/* Of this process. Before there are threads (inventory_load). `world` is not filled in. */
void check_look(struct check_facts *ret);

/* Looks at the n GPUs' PCI links and error counters under `sys` ("/sys"); the first fault as one line, or "". */
void check_gpu_faults(const struct inventory *inv, const char *sys, char *ret, size_t size);

/* ---- speed.c: collective ---- */

int check_clocks(ddp_t *d, struct check_speed *ret, ddp_error_t *errp);
/* After check_clocks, whose result is in *ret. */
int check_memory(ddp_t *d, uint64_t left_bytes, struct check_speed *ret, ddp_error_t *errp);

/* ---- folder.c: collective ---- */

/* Writes mib MiB at most from each node into a file that has lost its name before the first byte is written. timeout_s:
 * of a wait for another rank; a file system that does not answer is said before that. */
int check_folder(ddp_t *d, const char *dir, int mib, double timeout_s, struct check_folder *ret, ddp_error_t *errp);

/* ---- links.c: collective ---- */

/* Measures pairs of nodes, all of a round at once; adds to c->link, or where a pair is there already keeps the better
 * figures. c->facts is filled. */
int check_links(ddp_t *d, struct check *c, ddp_error_t *errp);

/* ---- slow.c: pure ---- */

#define CHECK_ROUNDS_MAX 15

/* A tournament of n_nodes: how many rounds are played, and whom `node` meets in one (-1: nobody). In all rounds of
 * n_nodes - 1 or n_nodes each meets each other; of more than CHECK_ROUNDS_MAX so many are played, spread evenly. */
int check_rounds(int n_nodes);
int check_opponent(int n_nodes, int round, int node);

/* Which nodes are slow: is_slow[n_nodes]; ret_gbs, ret_latency_s: of the median node. A node's figure is the median
 * over its pairs, of an even number the better of the two in the middle, so that one slow node of three or more makes
 * no other slow. See the constants in slow.c. Returns how many are slow; none where there are fewer than three
 * nodes. */
int check_slow_nodes(const struct check *c, bool *is_slow, double *ret_gbs, double *ret_latency_s);

/* A pair that is slow, or failed, although neither of its nodes is slow. */
bool check_slow_link(const struct check_link *l, const bool *is_slow, double gbs, double latency_s);

/* What of a rank is slow beside the median rank's, or at all. */
enum { CHECK_SLOW_MEMORY = 1, CHECK_SLOW_CPU = 2, CHECK_HALF_CORE = 4 /* less, whatever the others have */ };

/* False where a rank had no memory to measure: neither memory_gbs nor cpu says anything then. */
bool check_is_measured(const struct check_speed *s);

/* slow[size]; of ranks that are measured. Returns how many are. */
int check_slow_ranks(const struct check *c, uint8_t *slow, struct check_speed *ret_median);

/* ---- judge.c: pure ---- */

void check_judge(const struct check *c, struct verdicts *ret);

#endif
