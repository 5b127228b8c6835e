/* ref_place.h - doc/placement.md once more, as literally as it reads and without regard to speed: what the tests
 * compare topology/placement.c with. Shares no code with it but the inventory's own functions. */
#ifndef DDP_T_REF_PLACE_H
#define DDP_T_REF_PLACE_H

#include "topology/placement.h"

/* Section 2 in one list: cost[rank * n_devices + device]; of all assignments by exhaustive search over how many ranks
 * each device has, the first in the rule's order. false: too many to search. */
bool ref_match(int n_ranks, int n_devices, const uint8_t *cost, int at_least, int at_most, int *ret_device);

/* The same by walking through every single assignment; n_devices^n_ranks of them. */
void ref_match_all(int n_ranks, int n_devices, const uint8_t *cost, int at_least, int at_most, int *ret_device);

/* All sections. given[n_ranks]: ordinals to take where section 2's search is too long; NULL: fail then (false). */
bool ref_place(const struct placement_request *req, const int *given, struct place *ret);

#endif
