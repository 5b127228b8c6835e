/* activity.h - whether a program computes or waits, by the processor time that it takes, so that of a hang it can be
 * said for whom the others waited. It waits where what it has started takes none either. Pure. */
#ifndef DDP_SPANK_GUARDS_ACTIVITY_H
#define DDP_SPANK_GUARDS_ACTIVITY_H

#include <stdbool.h>
#include <stdint.h>

#define ACTIVITY_S 1.0 /* from one look to the next */
#define ACTIVITY_N 2   /* looks in a row that make an activity */

enum activity_kind { ACTIVITY_MIXED, ACTIVITY_WAITS, ACTIVITY_COMPUTES };

struct activity {
    uint64_t at_ns, used_ns, below_ns; /* of the look before; at 0: there was none */
    enum activity_kind last, is;
};

#define ACTIVITY_UNKNOWN UINT64_MAX

/* A look: all processor time that the program has taken so far, and what the processes that it has started have, which
 * may be ACTIVITY_UNKNOWN where activity_is_low is false. Returns its activity. */
enum activity_kind activity_take(struct activity *p, uint64_t now_ns, uint64_t used_ns, uint64_t below_ns);
bool activity_is_low(const struct activity *p, uint64_t now_ns, uint64_t used_ns);

#endif
