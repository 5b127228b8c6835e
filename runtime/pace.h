/* pace.h - what all ranks know of each other's time: which one is slow, where a step's time goes, what it would take
 * without communication.
 *
 * After the first step, every PACE_STEPS steps and with the last one the ranks gather struct pace_own, a few numbers of
 * each: an interval.
 *
 * Slow. A rank's time is the median over PACE_STEPS steps from ddp_batch_next of the first micro-step to
 * ddp_backward_end of the last. A rank is slow whose time is more than PACE_SLOW times the median rank's. On processors
 * alone: a GPU still computes when the host has come to the pass's end.
 *
 * A slow link. A node's rate is that of its fastest connection to another node: a node is named that sends at less than
 * PACE_LINK of the median node's rate, of three nodes or more, where the ranks wait for sums for PACE_LINK_WAITS of
 * their time or longer. Where nodes share a machine, the one with the slow link computes when the others do, and takes
 * longer for it: so the link is looked at first.
 *
 * Efficiency, without a run on one rank. A step's baseline is what its micro-steps would take in computing (data,
 * forward, backward) with nothing beside them: as long as those that do not synchronise, where there is accumulation;
 * else as many times as long as they do as a quiet pass (reducer.h) has taken of the passes before it, in the median
 * of PARTS_QUIET, so that neither a machine that gets slower nor one slow pass counts. With the optimizer's part that
 * is what one rank alone would take for its step, but for what ranks on one node take from each other (memory
 * bandwidth, clock), which is in it. Efficiency is this over the mean step without checkpoints and `other`: the rest is
 * exposed communication, waiting for slower ranks, and what communication beside backward takes from computing.
 *
 * Barriers. Behind the gather, which they have left together, the ranks meet in a barrier, and each takes its time:
 * what a barrier costs, and not who comes late to it. It is left out where it would cost more than PACE_BARRIER_SHARE
 * of the time. */
#ifndef DDP_RUNTIME_PACE_H
#define DDP_RUNTIME_PACE_H

#include "runtime/base/stats.h"
#include "runtime/core/team.h"
#include "runtime/parts.h"

#define PACE_STEPS 50
#define PACE_SLOW 1.2
#define PACE_LINK 0.33
#define PACE_LINK_WAITS 0.1
#define PACE_BARRIERS 256 /* the last ones, whose times are kept */
#define PACE_BARRIER_SHARE 1e-3
#define PACE_LEAST_S 1e-3 /* below it a step's time is that of its calls, and of what else the machine does */

/* One rank's numbers, all doubles: they also travel as a sum over ranks, in which the others are 0. */
struct pace_own {
    double took_s;            /* the median */
    double part_s[DDP_PARTS]; /* in the interval, as hidden_s */
    double hidden_s;
    double baseline_s;        /* of a step; NAN: not known */
    double memory_bytes;      /* the most that it ever held */
    double barrier_s;         /* behind the last gather; NAN: there was none */
    double send_bps;          /* to other nodes (comm_tcp_rate); NAN: not known */
};
#define PACE_OWN_N (sizeof(struct pace_own) / sizeof(double))

/* The last interval: means over the ranks. */
struct pace_interval {
    uint64_t n_steps;         /* skipped ones too */
    double part_s[DDP_PARTS]; /* which add up to */
    double wall_s;
    double hidden_s;
    double baseline_s;        /* of a step; NAN: not known, as efficiency */
    double efficiency;
    double barrier_s;         /* behind the last gather; NAN: there was none */
    bool is_judged;           /* it had steps enough to see who is slow, */
    bool is_slow;             /* and a rank was, */
    bool is_link;             /* or its node's link */
};

struct pace {
    int n; /* steps noted */
    double took_s[PACE_STEPS];
    int slow_rank; /* that was slow last, where slow is not "" */
    double slow_factor;
    char slow[128]; /* "rank 3 (n2) computes 1.31 times as long as the median rank"; "": none was */

    bool had_last;                 /* step that none was expected to follow */
    uint64_t n_steps, n_intervals; /* steps since the last interval; intervals */
    struct parts at;               /* as they were then, */
    double at_s[DDP_PARTS], at_hidden_s;
    struct pace_interval last;
    struct pace_own *all;          /* [size] of the last interval; a rank that is not known has NAN; NULL: none yet */
    uint64_t n_barriers;           /* that were timed, on this rank */
    double barrier_s[PACE_BARRIERS];
    double barrier_now_s;          /* since the last gather; NAN: none */
    double barrier_mean_s, barrier_due_s; /* the last one, mean over the ranks; time since then */
    double need_s, had_s;          /* over the run but its first step: what efficiency is a quotient of */
};

/* In ddp_backward_end: what this step took on this rank. */
void pace_note(struct pace *p, double took_s);

/* In ddp_step, once: whether the ranks are to gather now. has_joined: a rank had no data in this step, and who is slow
 * is looked for anew; is_last: none is expected to follow. The same on all ranks. */
bool pace_is_due(struct pace *p, bool has_joined, bool is_last);

/* This rank's numbers since the last interval; hidden_s: so far. */
struct pace_own pace_own(struct pace *p, const struct parts *parts, double hidden_s, double send_bps);

/* All ranks' numbers, which it frees; can_be_slow: on processors. */
void pace_take(struct pace *p, const struct team *t, struct pace_own *all, bool can_be_slow);

/* Between the gather and pace_take: a barrier, where there are ranks to meet and it is not too dear. -1: it failed, and
 * t is broken. Collective. */
int pace_barrier(struct pace *p, struct team *t, ddp_error_t *errp);

/* What the last barriers took; all 0: there was none. */
struct stats pace_barriers(const struct pace *p);

/* Over the run but its first step; NAN: not known. */
double pace_efficiency(const struct pace *p);

void pace_close(struct pace *p);

#endif
