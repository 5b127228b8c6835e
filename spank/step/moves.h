/* moves.h - what a restart says of the nodes that have left. Pure. */
#ifndef DDP_SPANK_STEP_MOVES_H
#define DDP_SPANK_STEP_MOVES_H

#include <stddef.h>

#include "spank/step/hostlist.h"

#define MOVES_TEXT_MAX 640 /* bytes; the sentence says how many nodes it has no room to name */

struct move {
    char who[HOSTLIST_NAME_MAX + 1], by[HOSTLIST_NAME_MAX + 1]; /* by: who takes its place; "": nobody */
};

/* "n4 takes the place of n2, it goes on without n[5-7]", n of them; "" for none. Returns ret. */
const char *moves_text(const struct move *move, size_t n, char ret[MOVES_TEXT_MAX]);

#endif
