/* guards_impl.h - what the files of guards.h share: from the bottom up guards_link.c (messages over a connection),
 * guards_beat.c (who is silent), guards_join.c (who is connected with whom), guards_round.c (generations, stops),
 * guards_suspect.c (what a failure may come from), guards_ask.c (for the guard) and guards.c (what it means). */
#ifndef DDP_SPANK_GUARDS_IMPL_H
#define DDP_SPANK_GUARDS_IMPL_H

#include <netdb.h>

#include "runtime/base/frame.h"
#include "runtime/base/lobby.h"
#include "spank/guards.h"

enum {
    TOLD_BEAT,
    TOLD_DEATH,    /* up */
    TOLD_VERDICT,  /* down */
    TOLD_FAREWELL, /* up */
    TOLD_DONE,     /* up: all programs of the subtree have ended well; how: how many */
    TOLD_HERE,     /* up: how many guards of the subtree have joined it */
    TOLD_GONE,     /* up, after a verdict with a next generation: nothing of them is left; how: as before */
    TOLD_ALONE,    /* up: a program of the subtree was asked to end, and is not started again */
    TOLD_OVER,     /* down: none is started again */
    TOLD_START,    /* down: the next generation */
    TOLD_CARD,     /* down: rank 0's card */
    TOLD_SAVED,    /* up: how many programs of the subtree have saved */
    TOLD_SUSPECT,  /* up: guards_suspect */
    TOLD_STOP,     /* up and down: all are to save and end */
};

/* How far a connection is. Who asks says who it is, hears that it is let in, and confirms that it has heard that: one
 * that gave up in between is nobody's death. */
enum state { LINK_CONNECTS, LINK_ASKS, LINK_IS_IN };

/* A connection to another guard. */
struct link {
    int fd;
    enum state state;
    bool is_remote, is_over; /* TCP; it has said farewell */
    bool is_quiet;           /* it has said nothing for GUARDS_SAY_SILENT_S, which was noted */
    int rank, node;          /* at the other end */
    char name[HOSTLIST_NAME_MAX + 1];
    uint64_t heard;
    struct frame in;
    int n_here, n_done, n_gone, n_saved; /* what it has told */
    struct link *next;
};

struct guards {
    struct guards_facts f;
    int epoll, listen_fd[2]; /* unix, TCP */
    lobby_t *lobby[2];
    struct link *below, *above; /* above: NULL until it is joined */
    bool is_finished, is_alone; /* alone: there is none above, or it cannot be reached */
    bool is_ending;             /* nobody's end is a death any more */
    struct link *trial;         /* on its way to be the one above; NULL: none is */
    uint64_t join_at;           /* of the next trial, or the end of this one */
    uint64_t join_until, beat_at, looked_at;
    int join_wait_ms, join_port; /* the wait before the next round; which port is next */
    struct addrinfo *above_at, *above_now;
    struct death first, verdict; /* first: what the verdict will be at settle_at */
    struct death suspect;        /* kind DEATH_NONE: nobody, or too many */
    int n_left;                  /* of DEATH_LEFT */
    uint64_t settle_at;          /* 0: nothing has died */
    struct death lost;           /* who has gone without a farewell, and counts as dead from lost_at on */
    uint64_t lost_at;            /* 0: nobody */
    bool is_lost_above, is_loss_ours, is_ours;
    int generation;
    bool is_whole; /* the root: all guards have joined */
    bool is_gone, is_asked, is_over; /* over: there is no next generation */
    bool has_saved, is_stopping, wants_requeue;
    int told_here, told_done, told_gone, told_saved; /* above */
    int n_missing;                   /* of guards, when it was decided that there is no next generation */
    uint64_t stuck_at;               /* the root; 0: no generation is about to follow */
    int last_rank, n_in_row;         /* of the last deaths */
    char card[FRAME_BODY_MAX + 1];   /* "": not known yet */
    char warning[160], said_warning[160]; /* "": none */
};

/* ---- guards_link.c ---- */

/* A connection, which takes fd. NULL: fd is closed. */
struct link *link_add(guards_t *g, int fd, bool is_remote, enum state state);
void link_drop(guards_t *g, struct link *l);

/* d: NULL where the message has none. */
void link_send(const struct link *l, int what, const struct death *d);
void link_send_below(const guards_t *g, int what, const struct death *d);

void link_send_text_below(const guards_t *g, int what, const char *text);

/* 1: a message, in *ret_what, and in *ret, or *ret_text where it has one; 0: none now; -1: the connection has ended. */
int link_next(struct link *l, int *ret_what, struct death *ret, char ret_text[FRAME_BODY_MAX + 1]);

/* ---- guards_join.c ---- */

void join_open(guards_t *g); /* listens where others are to come, and finds the one above */
bool join_is_open(const guards_t *g); /* there is one above to join still */
void join_step(guards_t *g); /* at g->join_at */

/* The trial's connection can be written to or has failed; has ended. */
void join_ask(guards_t *g);
void join_fail(guards_t *g);

/* The answer. False: it was a stranger's, whose connection has gone. */
bool join_succeed(guards_t *g, const struct death *who);

/* ---- guards_beat.c ---- */

uint64_t beat_due(const guards_t *g); /* 0: nobody is on another node */
bool beat_step(guards_t *g);          /* says that this guard is there, if it is time: true */
struct link *beat_silent(guards_t *g); /* who has said nothing for too long; NULL: nobody */

/* ---- guards_suspect.c ---- */

void suspect_reset(guards_t *g);
void suspect_tell_above(const guards_t *g); /* once there is one */

/* Adds to a death that may follow from it. */
void suspect_blame(const guards_t *g, struct death *d);

/* ---- guards_round.c; all do nothing where there are no restarts, nor a stop or a requeue ---- */

void round_start(guards_t *g, int generation);
void round_over(guards_t *g);
void round_ask(guards_t *g);        /* this guard's program, or one below, was asked to end */
void round_look(guards_t *g);       /* at every change, and at round_due */
uint64_t round_due(const guards_t *g); /* 0: at changes only */
void round_tell_above(guards_t *g); /* once there is one */
void round_stop(guards_t *g);       /* tells all who do not know */

/* Whether a generation follows this death: in d->next and d->of. */
void round_decide(guards_t *g, struct death *d);

/* At g->stuck_at: who keeps the next generation from beginning. */
struct death round_stuck(const guards_t *g);

#endif
