/* legend.h - what stands around the machine in its picture: the head above it, ranks, key and notes below. Pure. */
#ifndef DDP_TOPOLOGY_SHOW_LEGEND_H
#define DDP_TOPOLOGY_SHOW_LEGEND_H

#include "topology/show/impl.h"

/* Each returns the height that it took, and widens *w. The head begins at y 0, the others at `y`. */
double legend_head(struct text *t, const struct show *s, double *w);
double legend_ranks(struct text *t, const struct show *s, const struct show_rows *rows, double y, double *w);
double legend_key(struct text *t, const struct show *s, const struct show_owner *owner, double y, double *w);

#endif
