/* death.h - the end of a program that nobody wished for, or of a guard or a node: as guards tell each other of it, and
 * in words. Pure. */
#ifndef DDP_SPANK_GUARDS_DEATH_H
#define DDP_SPANK_GUARDS_DEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/step/hostlist.h"

#define DEATH_TEXT_MAX 231

enum death_kind {
    DEATH_NONE,
    DEATH_ENDED,  /* the rank's program ended; how: its wait status */
    DEATH_MEMORY, /* the kernel killed it: its control group was out of memory */
    DEATH_GUARD,  /* the rank's guard was killed, and with it the program */
    DEATH_GONE,   /* the same of a node's first rank, or of any where others go on without the node, which then is all
                   * that they see; or slurmstepd was killed, or the node has gone */
    DEATH_ABSENT, /* the node has not come in time, and others go on without it */
    DEATH_SILENT, /* the node has said nothing for `how` seconds; text: which node found that */
    DEATH_DEAF,   /* the node has heard none of several others for `how` seconds */
    DEATH_SRUN,   /* srun has gone, and so nobody waits for the step (lifeline.h) */
    DEATH_MISSING, /* `how` tasks have not come, whom all would wait for, one of them on that node; "": not known */
    DEATH_STUCK,  /* a program on the rank's node does not end, so no generation can follow */
    DEATH_TOLD,    /* libddp in a program that failed found the cause in that rank; how: that program's wait status */
    DEATH_LEFT,    /* no failure, but others may fail by it: the rank's program ended with code 0 */
    DEATH_HALTED,  /* likewise: it stands still, by the signal `how`, or death_asked_by of its wait status, `how` */
    DEATH_BUSY,    /* likewise: it computes, for `how` seconds, and all others wait */
    DEATH_IDLE,    /* likewise: all wait, for `how` seconds; rank: -1; text: in which calls, or "" */
    DEATH_STOPPED, /* no failure: the stop's signal ended a program that did not catch it; how: its wait status */
    DEATH_SHORT,   /* the rank's program ended, how: its wait status, after the kernel had killed another process of its
                    * control group, which was out of memory */
};

struct death {
    enum death_kind kind;
    int rank, how; /* rank: one of the node's where it is the node */
    uint32_t after_s; /* from the start of the program */
    int next, of;     /* in a verdict: the generation that follows, and how many may (0: one may not follow after all);
                       * next 0: none follows, where `of` is how often the rank died in a row. Of DEATH_STOPPED: it is
                       * a requeue that follows */
    char node[HOSTLIST_NAME_MAX + 1];
    char text[DEATH_TEXT_MAX + 1]; /* of DEATH_TOLD; of DEATH_ENDED what went before it, or "" */
    int at;          /* that node's number in the step (step.h) */
    bool is_certain; /* of a node: it is not the network, its guard has ended */
    int restart;     /* which of those `of` follows: less than `next` where a generation was given up before it began */
};

/* Whether a program that ended with this wait status has failed. It has not after exit code 0 or saved_code (the key
 * stop_code: stopped as was asked), nor by SIGTERM, SIGINT or SIGHUP, which somebody has sent: Slurm at the end of a
 * step, mostly; shells say these by an exit code of 128 more. */
bool death_is_failure(int status, int saved_code);

/* Which of these three signals ended it so; 0: none. */
int death_asked_by(int status);

/* Whether this signal ended it, or, as shells say that, what it ran. */
bool death_is_by(int status, int signo);

/* It is a node's, or takes the node out of use: no program can be started there again. */
bool death_is_nodes(const struct death *d);

/* Programs end like this because another one has: by an exit code, or by a signal that they send themselves when a
 * connection fails (SIGABRT, SIGPIPE). Not by a shell's code for one that ended by SIGKILL or by a fault of its own. */
bool death_may_follow(const struct death *d);

/* Of a program in whose control group the kernel has killed for want of memory: kind DEATH_MEMORY where it was the
 * program, or what a shell ran as such; DEATH_SHORT where it was, say, a DataLoader's worker. */
void death_take_memory(struct death *d);

/* Whether `d` says more of what happened first than `than`, which was heard before: a signal goes before want of memory
 * elsewhere in the control group, that before what libddp found, and that before an exit code; but of the rank that
 * libddp found, its own end. */
bool death_is_nearer(const struct death *d, const struct death *than);

/* "rank 3 (n2) was killed by signal 9 (Killed) after 12 s", and of one with a generation that follows ": restart 1 of
 * 3", without a newline. Returns buf. */
const char *death_say(const struct death *d, char *buf, size_t size);

#define DEATH_BYTES 332 /* of a death on the way; a longer name of a node is cut */
void death_pack(const struct death *d, unsigned char bytes[DEATH_BYTES]);
void death_unpack(const unsigned char bytes[DEATH_BYTES], struct death *ret);

#endif
