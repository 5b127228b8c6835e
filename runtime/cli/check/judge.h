/* judge.h - the parts of judge.c: a function for each item, which adds its verdict. Pure. */
#ifndef DDP_RUNTIME_CLI_CHECK_JUDGE_H
#define DDP_RUNTIME_CLI_CHECK_JUDGE_H

#include "runtime/cli/check/check.h"

#define MIB (1024.0 * 1024)
#define GIB (1024 * MIB)

struct judge {
    const struct check *c;
    struct verdicts *out;
    bool *node;      /* [n_nodes] those that the item at hand names */
    char names[256]; /* judge_name's */
};

/* ---- name.c ---- */

const char *judge_host(const struct judge *j, int node);
void judge_clear(struct judge *j);

/* "n1, n3 and 5 more" of the nodes that are marked, to names; how many they are. */
int judge_name(struct judge *j);

/* The marked nodes are v's nodes at fault. */
void judge_blame(const struct judge *j, struct verdict *v);

/* "...: --exclude=" with the marked nodes, of too many " and 5 more: see --json" at the end. Returns buf. */
const char *judge_cure(const struct judge *j, char *buf, size_t size);

/* ---- judge_node.c ---- */
void judge_binding(struct judge *j);
void judge_memory(struct judge *j);
void judge_clocks(struct judge *j);
void judge_speed(struct judge *j);

/* ---- judge_io.c ---- */
void judge_links(struct judge *j);
void judge_gpus(struct judge *j);
void judge_folder(struct judge *j);

#endif
