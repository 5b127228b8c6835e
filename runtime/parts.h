/* parts.h - where a rank's time goes: every moment from ddp_batch_next of the first step on is in one part, so that the
 * parts add up to the time that has passed. Beside it, what a micro-step computes when nothing travels.
 *
 * On a GPU it is the GPU's time: the host is ahead of it, and then waits for all of it in one place. Where a part ends
 * the host enqueues a mark, and the part has the time from mark to mark. So what the GPU had nothing to do in for want
 * of samples is in DDP_PART_DATA, for want of sums in DDP_PART_EXPOSED. What is counted is what lies behind the last
 * mark that the GPU has come to; that is seen when parts change, without a wait. */
#ifndef DDP_RUNTIME_PARTS_H
#define DDP_RUNTIME_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/ddp.h"

#define PARTS_BUSY 5  /* micro-steps that are kept of those beside which gradients travelled, */
#define PARTS_QUIET 9 /* and of the quiet ones (reducer.h) */

#define PARTS_MARKS 256     /* that a device may be behind */
#define PARTS_MICRO_MARKS 8 /* of a micro-step; without room for them all is BACKWARD until there is, or CHECKPOINT */

/* Points in a device's work, in slots of which each is used again and again. All return -1 on failure: then the
 * host's time counts from there on. */
struct parts_clock {
    void *ctx;
    int (*mark)(void *ctx, unsigned slot);       /* behind what is enqueued now */
    int (*is_reached)(void *ctx, unsigned slot); /* 1: yes, 0: not yet */
    int (*between)(void *ctx, unsigned from, unsigned to, uint64_t *ret_ns);
};

/* What begins at a mark. */
struct parts_mark {
    enum ddp_part part;
    enum { MARK_NOTHING, MARK_MICRO, MARK_QUIET_OVER, MARK_BUSY_OVER } micro; /* a micro-step's computing, or its end */
};

struct parts {
    uint64_t since_ns;     /* when the counted part began, for the host; 0: there is none yet */
    enum ddp_part part;    /* the present one, for the host */
    enum ddp_part counted; /* the one whose end comes next: on a device an earlier one */
    uint64_t ns[DDP_PARTS]; /* those that are over */
    unsigned untold;        /* 1 << part: one whose time only the program knows, and it has never told */
    const struct parts_clock *clock; /* NULL: the host's */
    struct parts_mark mark[PARTS_MARKS];
    uint64_t n_marked, n_reached; /* marks; the last that was reached is where the counted part began */
    bool is_unmarked;             /* the present micro-step, or the last, found no room */
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

/* From parts_begin on the device's time counts. clock stays the caller's. Before parts_begin. */
static inline void parts_on(struct parts *p, const struct parts_clock *clock)
{
    p->clock = clock;
}

/* From now on the host's time counts, and the device is not asked any more. What it has not come to is lost. */
void parts_off(struct parts *p);

void parts_begin(struct parts *p);   /* with DDP_PART_OTHER; nothing where it has begun */
void parts_restart(struct parts *p); /* forgets all but untold, and begins */

/* The present part was another one from its beginning. */
void parts_rename(struct parts *p, enum ddp_part part);

/* Around a micro-step's computing, in DDP_PART_FORWARD and DDP_PART_OTHER. */
void parts_micro_begin(struct parts *p);
void parts_micro_end(struct parts *p, bool is_quiet);

/* What a micro-step computes when it is quiet, over what it computes when it is not: a median; NAN: not known. */
double parts_ratio(const struct parts *p);

/* What is counted of DATA, FORWARD and BACKWARD, in seconds. */
double parts_computed_s(const struct parts *p);

/* All of them now (on a device: as far as is counted), in seconds. Returns their sum. */
double parts_get(const struct parts *p, double ret[DDP_PARTS]);

#endif
