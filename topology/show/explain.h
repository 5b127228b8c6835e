/* explain.h - what the explain files share: the placement's intermediate results for a request, and sentences about
 * them. */
#ifndef DDP_TOPOLOGY_SHOW_EXPLAIN_H
#define DDP_TOPOLOGY_SHOW_EXPLAIN_H

#include "topology/placement_impl.h"
#include "topology/show/impl.h"

struct telling {
    const struct show *s;
    const struct inventory *inv;
    const struct placement_rank *r;
    const struct place *p;
    int rank, n_ranks;
    struct placing *pl; /* after sections 1 and 2 of the rule */
    const struct pool *pool;
    bool *is_in;   /* [n_ranks] room for lists of ranks */
    struct text t; /* the paragraph that is being written */
};

/* ---- explain_facts.c ---- */

/* The ranks r with is(tell, r), as show_add_ranks writes them. Returns how many. */
int tell_ranks(struct telling *tell, bool (*is)(const struct telling *tell, int r));

bool tell_has_home(const struct telling *tell);  /* the rank's GPU has a home */
bool tell_is_dealt(const struct telling *tell);  /* the rule has chosen its cores: neither PLACE_KEPT nor PLACE_OWN */
int tell_home_cores(const struct telling *tell); /* cores of its pool at its GPU's home; 0: it has none */

/* ---- explain_near.c ---- */

/* A paragraph each: how many cores, which, memory node, NIC. */
void tell_share(struct telling *tell);
void tell_cores(struct telling *tell);
void tell_memory(struct telling *tell);
void tell_nic(struct telling *tell);

/* ---- explain_better.c ---- */

/* Adds what the user could change for a better placement, if anything. */
void tell_better(struct telling *tell);

#endif
