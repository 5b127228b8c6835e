/* parts.h - where a rank's time goes: every moment from ddp_batch_next of the first step on is in one part, so that the
 * parts add up to the time that has passed. Beside it, what a micro-step computes when nothing travels. */
#ifndef DDP_RUNTIME_PARTS_H
#define DDP_RUNTIME_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/ddp.h"

#define PARTS_BUSY 5  /* micro-steps that are kept of those beside which gradients travelled, */
#define PARTS_QUIET 9 /* and of the quiet ones (reducer.h) */

struct parts {
    uint64_t since_ns;     /* when the present part began; 0: there is none yet */
    enum ddp_part part;    /* the present one */
    uint64_t ns[DDP_PARTS]; /* those that are over */
    uint64_t micro_ns;     /* computed before the present micro-step */
    uint64_t n_micros;     /* that were not empty */
    double busy_s[PARTS_BUSY];   /* what the last busy ones computed */
    double ratio[PARTS_QUIET];   /* what the last quiet ones computed, over the median of busy_s at that time */
    uint64_t n_busy, n_ratios, n_quiet;
    double quiet_sum_s;          /* what all quiet ones computed */
};

/* The present part ends and `next` begins. Returns the present one, to come back to. Before parts_begin nothing
 * happens. */
enum ddp_part parts_go(struct parts *p, enum ddp_part next);

void parts_begin(struct parts *p);   /* with DDP_PART_OTHER; nothing where it has begun */
void parts_restart(struct parts *p); /* forgets all, and begins */

/* The present part was another one from its beginning. */
static inline void parts_rename(struct parts *p, enum ddp_part part)
{
    p->part = part;
}

/* Around a micro-step's computing, in DDP_PART_FORWARD and DDP_PART_OTHER. */
void parts_micro_begin(struct parts *p);
void parts_micro_end(struct parts *p, bool is_quiet);

/* What a micro-step computes when it is quiet, over what it computes when it is not: a median; NAN: not known. */
double parts_ratio(const struct parts *p);

/* All of them now, in seconds. Returns their sum. */
double parts_get(const struct parts *p, double ret[DDP_PARTS]);

#endif
