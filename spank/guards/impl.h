/* impl.h - what the files of guards.h share: from the bottom up link.c (messages over a connection), news.c (lines for
 * the user), beat.c (who is silent), nodes.c (which nodes are in the tree, and which have left), nodes_seat.c (who has
 * which place), join.c (who is connected with whom), roll.c (who else has died), round.c (generations, stops),
 * suspect.c (what a failure may come from), calls.c (in which calls all wait), ask.c (for the guard), verdict.c (which
 * death all are told of), loss.c (whose connection has gone) and guards.c (what each message means, and when what is
 * due). */
#ifndef DDP_SPANK_GUARDS_IMPL_H
#define DDP_SPANK_GUARDS_IMPL_H

#include <netdb.h>

#include "runtime/base/error.h"
#include "runtime/base/frame.h"
#include "runtime/base/lobby.h"
#include "runtime/stack/answer.h"
#include "spank/guards/guards.h"
#include "spank/guards/proof.h"

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
    TOLD_CARD,     /* up to the root, then down: rank 0's card */
    TOLD_SAVED,    /* up: how many programs of the subtree have saved */
    TOLD_SUSPECT,  /* up: guards_suspect */
    TOLD_ACTIVITY, /* up: guards_activity, of the subtree */
    TOLD_STOP,     /* up and down: all are to save and end */
    TOLD_NODE,     /* up: where the node `at` is now (how: enum node_place) */
    TOLD_LOOK,     /* down: all wait; in which calls? how: the number of this round of questions */
    TOLD_CALL,     /* up: so many (how) programs of the subtree wait in the call `text`, `rank` is one of them */
    TOLD_LEFT,     /* down: the node `at` has left, as the one of number `how` */
    TOLD_ROLL,     /* down: a program has died; whose has, too? how: the number of this roll call */
    TOLD_ROLLED,   /* up: all of the subtree have said so */
    TOLD_LOST,     /* up: a node of the subtree has gone without a farewell, whatever the verdict is */
    TOLD_REST,     /* up and down: a beat, perhaps the last for long: Slurm suspends the step */
};

/* How far a connection is. Who calls is told what to answer (proof.h). Who asks says who it is, hears that it is
 * let in, and confirms that it has heard that: one that gave up in between is nobody's death. */
enum state { LINK_CONNECTS, LINK_CALLS, LINK_ASKS, LINK_IS_IN };

/* A connection to another guard. */
struct link {
    int fd;
    enum state state;
    bool is_remote, is_over; /* TCP; it has said farewell */
    bool is_deaf;            /* the last that it has said is that it does not hear this node */
    bool is_quiet;           /* it has said nothing for GUARDS_SAY_SILENT_S, which was noted */
    uint64_t rests_at;       /* its last beat was TOLD_REST, and came then: it may be silent; 0: it was not */
    int rank, node;          /* at the other end */
    char name[HOSTLIST_NAME_MAX + 1];
    uint64_t heard;
    struct frame in;
    int n_here, n_done, n_gone, n_saved; /* what it has told, but for n_here of this generation or verdict */
    int rolled;                          /* the last roll call that it has answered */
    struct death activity;                 /* of its subtree (guards_activity) */
    struct link *next;
};

/* Of a node in the subtree: not, or not any more; it is; it was until its farewell, with nothing left to run. */
enum node_place { NODE_IS_AWAY, NODE_IS_THERE, NODE_HAS_ENDED };

/* A node of the step, as a leader knows it. */
struct node {
    const struct link *via;   /* below that; NULL: it is this one, or not in the subtree */
    bool has_come, has_ended; /* it has been there; NODE_HAS_ENDED */
    enum node_place told;     /* above */
    bool is_lost, is_certain; /* a connection to it has ended; nothing of it runs any more */
    bool is_overdue; /* at the root: it has not come in time, and is no more waited for */
    bool has_left, is_out; /* out: before this generation began */
    bool is_unsaid; /* at the root: the user is to be told that it has gone */
};

#define NEWS_MAX 1024 /* bytes of lines for the user that the guard has not taken yet */
#define LEFT_MAX 256 /* nodes that may leave; no generation follows when more do */

struct nodes {
    struct node *of; /* NULL: not a leader's, or a step that is not elastic */
    int left[LEFT_MAX], n_left; /* in their order, which decides who sits where */
    int n_seated;               /* how many of them the seats have seen */
    struct seats seats; /* of the generation that runs */
    bool is_changed;    /* what is to be told above */
    uint64_t free_at;   /* when the programs of lost nodes must have ended; 0: they have */
    uint64_t absent_at; /* the root: when nodes that are not in the tree are lost; 0: none is */
    uint64_t rejoin_at; /* a new root: until when others join it; 0: it is none, or they have had that time */
};

/* At the root: all programs wait, or all but one, which computes. */
enum { LULL_ALL, LULL_ONE, LULLS };

struct lull {
    uint64_t since, until; /* 0: there was none; 0: it goes on */
    int rank;              /* of that one, and its node: */
    char node[HOSTLIST_NAME_MAX + 1];
};

/* A call that programs of this subtree wait in. */
struct call {
    char answer[ANSWER_BYTES];
    int n, rank; /* one of them; and its node: */
    char node[HOSTLIST_NAME_MAX + 1];
};

#define CALLS_KINDS 4 /* with more nothing is said */

struct calls {
    int round;  /* of questions; 0: none yet */
    int next_s; /* the root: the next round is due so many seconds after the lull's beginning */
    int last_s; /* the last one was */
    bool is_void; /* the root: of this round nothing is to be said */
    bool is_asked; /* this guard's program, and it has not answered */
    int n_wanted, n_told; /* programs */
    struct call kind[CALLS_KINDS];
    int n_kinds;     /* CALLS_KINDS + 1: more than those */
    char said[160]; /* the root: "rank 2 (n3) in gloo::broadcast, the 3 others in gloo::allreduce"; "": not known */
    char news[160]; /* the root: the last round's, of different collectives */
    char told[160]; /* what the user has been told */
};

struct roll {
    int number;     /* 0: none yet */
    int told;       /* above */
    bool is_called; /* this guard, and it has not answered */
    uint64_t until; /* the root waits for answers */
};

struct guards {
    struct guards_facts f; /* above, port_above: where it joins now */
    int epoll, listen_fd[2]; /* unix, TCP */
    int port;                /* of the latter */
    lobby_t *lobby[2];
    struct link *below, *above; /* above: NULL until it is joined */
    bool is_finished, is_alone; /* alone: there is none above, or it cannot be reached */
    bool is_dismissed;          /* the one above has gone when all was said: this is no root */
    bool is_ending;             /* nobody's end is a death any more */
    bool is_broken;             /* guards_is_broken */
    const struct link *teller;  /* of those below: it tells the user when this guard has gone; NULL: none yet */
    bool is_teller;             /* this is one, for the one above */
    struct link *trial;         /* on its way to be the one above; NULL: none is */
    unsigned char nonce[PROOF_NONCE_LEN]; /* what it was sent; and what it has to say */
    char answer[PROOF_ANSWER_LEN + 1];
    size_t n_nonce;
    int above_node;             /* where it joins */
    bool has_joined;            /* one above, now or before */
    bool is_again, is_up;       /* after that was lost or missed; ... it aims at those between it and the root */
    bool is_aimed;              /* ... whose address is known; else the next is looked for at join_at */
    bool is_new_root;           /* there was none: to be noticed once */
    uint64_t join_at;           /* of the next trial, or the end of this one */
    uint64_t join_until, beat_at, looked_at;
    uint64_t rest_until; /* beats are TOLD_REST; 0: they are not */
    uint64_t woken_at;   /* Slurm has woken this node then; 0: not since it was to rest */
    int join_wait_ms, join_port; /* the wait before the next round; which port is next */
    struct addrinfo *above_at, *above_now;
    struct death first, verdict; /* first: what the verdict will be at settle_at */
    bool is_first_told;          /* by the root before this one, with a generation that follows */
    struct death suspect;        /* kind DEATH_NONE: nobody, or too many */
    int n_left;                  /* of DEATH_LEFT */
    struct death asked;          /* the first that was ended as Slurm ends steps, */
    uint64_t asked_at;           /* which is a death then; 0: none, or others were, too */
    struct death activity, told_activity; /* of this subtree; what is known of it above */
    struct calls calls;
    struct roll roll;
    struct lull lull[LULLS];
    uint64_t settle_at;          /* 0: nothing has died */
    uint64_t died_at;            /* the first that has, then */
    bool is_waiting;             /* `first`, since then, for a node that is late */
    struct death lost;           /* who has gone without a farewell, and counts as dead from lost_at on */
    uint64_t lost_at;            /* 0: nobody */
    bool is_lost_above, is_loss_ours, is_ours;
    bool is_held; /* the verdict is this root's, and may come of its being cut off: the user is not told yet */
    bool has_lost_below;         /* another node's leader of the subtree, whatever the verdict is */
    bool is_loss_void;           /* it has gone after all were asked to end, and is no death */
    int generation, n_restarts; /* so many generations have begun after the first */
    int pending, last_next; /* a generation that has begun before this program has gone; of a verdict that is void */
    bool is_meanwhile;      /* the verdict is this leader's own, until it has joined another */
    int moved_rank;         /* its node has left since it died there again and again; -1: none */
    struct nodes nodes;
    bool is_whole; /* the root: all guards have joined, or those that have not count as lost */
    bool is_gone, is_asked, is_over; /* over: there is no next generation */
    bool has_saved, is_stopping, wants_requeue;
    int told_here, told_done, told_gone, told_saved; /* above */
    int n_farewells; /* of the subtree's guards, in order, in a step without generations */
    int n_missing; /* of guards, when it was decided that there is no next generation, or none would come any more */
    uint64_t stuck_at;               /* the root; 0: no generation is about to follow */
    int last_rank, n_in_row;         /* of the last deaths */
    char card[FRAME_BODY_MAX + 1];   /* "": not known yet */
    char news[NEWS_MAX], said_news[NEWS_MAX]; /* whole lines; "": none */
};

/* ---- link.c ---- */

/* A connection, which takes fd. NULL: fd is closed. */
struct link *link_add(guards_t *g, int fd, bool is_remote, enum state state);
void link_drop(guards_t *g, struct link *l, bool is_silent);

/* d: NULL where the message has none. */
void link_send(const struct link *l, int what, const struct death *d);
void link_send_below(const guards_t *g, int what, const struct death *d);

void link_send_text(const struct link *l, int what, const char *text);
void link_send_text_below(const guards_t *g, int what, const char *text);

/* 1: a message, in *ret_what, and in *ret, or *ret_text where it has one; 0: none now; -1: the connection has ended,
 * by the other end if errno is 0 or ECONNRESET. */
int link_next(struct link *l, int *ret_what, struct death *ret, char ret_text[FRAME_BODY_MAX + 1]);

/* ---- news.c ---- */

/* A line for guards_news, behind those that nobody has taken yet. */
ERROR_PRINTF(2, 3) void news_add(guards_t *g, const char *format, ...);

/* ---- join.c ---- */

/* Listens where others are to come, and finds the one above. -1 with errno: short of memory or descriptors, it would
 * hear nobody who comes; the caller shuts both lobbies. */
int join_open(guards_t *g);
void join_shut(guards_t *g, lobby_t **lobby); /* g->lobby[i]: who comes is refused. Preserves errno */
bool join_is_open(const guards_t *g); /* there is one above to join still */
void join_step(guards_t *g); /* at g->join_at */

/* This guard's program has ended, or all were asked to: whom it waits for may never have started, and under
 * proctrack/linuxproc Slurm, which takes a node out of service whose tasks do not end, does not reach this one. */
void join_hurry(guards_t *g);

/* The trial's connection can be written to or has failed; has something to read; has ended. */
void join_call(guards_t *g);
void join_ask(guards_t *g);
void join_fail(guards_t *g);

/* The one above was lost, or has not come in join_s, or the next could not be joined or found: aims at the next, one at
 * a time, since the resolver may not answer and this guard has more to do; or this is the root from now on
 * (is_new_root). */
void join_again(guards_t *g);

/* The answer. False: it was a stranger's, whose connection has gone. */
bool join_succeed(guards_t *g, const struct death *who);

/* ---- nodes.c; all but nodes_open do nothing where no node may be missing ---- */

int nodes_open(guards_t *g); /* -1: memory is short */

/* What a connection tells, or its end. */
void nodes_are_at(guards_t *g, const struct link *via, int node, enum node_place place);
void nodes_drop(guards_t *g, const struct link *via);

void nodes_lose(guards_t *g, int node, bool is_certain); /* unless it is in the tree by another way */
void nodes_tell_above(guards_t *g);                      /* what has changed */
void nodes_tell_again(guards_t *g);                      /* all, since there is a new one */
void nodes_tell_left(const guards_t *g, const struct link *l);
void nodes_take_left(guards_t *g, const struct death *d);

bool nodes_have_gone(const guards_t *g); /* some of those that have left, altogether */

/* At the root: it reaches so few now, those that have ended counted in, that the others may be running. */
bool nodes_are_few(const guards_t *g);
void nodes_say_few(guards_t *g);
bool nodes_are_cut_off(const guards_t *g); /* so few, and not because the others had left before, or have ended */
bool nodes_may_be_cut_off(const guards_t *g); /* ... they are, or soon will be, by those that are late */
void nodes_say_losses(guards_t *g); /* to the user; not where they may be this node's own */
void nodes_expect(guards_t *g); /* this is the root from now on, and others are on their way to it */

/* At the root. A node has left, which is told to all. */
void nodes_leave(guards_t *g, int node);
bool nodes_spare(guards_t *g, const struct death *d); /* the loss of one, which ends no program */
bool nodes_are_enough(const guards_t *g); /* so many are left; whether they are this part's is another question */
bool nodes_go_on(guards_t *g); /* they are both; if not, told to the user. Once those that rejoin have had their time */
bool nodes_move(guards_t *g, const struct death *d);  /* the ranks of its node, to a spare, once for each rank */
bool nodes_are_all(guards_t *g); /* in the tree, or have left, as those that were lost do now */
/* So they are, or each has been there, if not all at once; with so many guards: all of theirs. */
bool nodes_are_whole(guards_t *g, int n_here);
/* Not all have come, and none is waited for any more: some nodes' guards, altogether, and without these it goes on. */
bool nodes_do_without(guards_t *g, int n_here);
void nodes_name_missing(const guards_t *g, char ret[HOSTLIST_NAME_MAX + 1]); /* one of which not all guards are here */
void nodes_wait(guards_t *g);    /* for those that are not in the tree, until absent_at */
bool nodes_absent(guards_t *g, int node, struct death *ret); /* it is one that was lost, or that is then */

void nodes_name(const guards_t *g, int node, char ret[HOSTLIST_NAME_MAX + 1]); /* "node 3" where nobody knows it */

/* ---- nodes_seat.c ---- */

void nodes_seat(guards_t *g); /* who has left gives way; the root tells the user */
bool nodes_is_spare(const guards_t *g, int node); /* it has no place, and nothing follows from its loss */

/* ---- beat.c ---- */

/* Whoever loses the guard above decides for itself and those below. If that was the root, one of them tells the user:
 * the first of those that are there, on another node if there is one. That one is told so at once, and who is it no
 * more; `asks` (or NULL) by what lets it in, where this returns true. */
bool beat_appoint(guards_t *g, const struct link *asks);

uint64_t beat_due(const guards_t *g); /* 0: nobody is on another node */
void beat_look(guards_t *g);          /* before anything else at each step of this guard */
bool beat_step(guards_t *g);          /* says that this guard is there, if it is time: true */
void beat_hear(struct link *l, int what); /* whatever l says */
struct link *beat_silent(guards_t *g); /* who has said nothing for too long; NULL: nobody */
int beat_silent_s(const guards_t *g, const struct link *l); /* for how long that one has */
bool beat_misses_one(const guards_t *g); /* somebody below is late, and may be found silent soon */
bool beat_is_late(const guards_t *g, const struct link *l); /* it is silent, or about to be with one that is */
bool beat_hears_none(const guards_t *g); /* nor do others, of several: it is this node, then */

/* ---- roll.c ---- */

void roll_call(guards_t *g); /* the root */
void roll_take(guards_t *g, int number);
bool roll_goes_on(const guards_t *g); /* somebody has not answered, and it is not too late */
void roll_look(guards_t *g);          /* whenever one below has answered, or gone */
void roll_tell(const guards_t *g, const struct link *l); /* who comes late answers it, too */
bool roll_is_after(const guards_t *g, const struct link *l); /* what l says now came after the failure */

/* ---- suspect.c ---- */

void suspect_reset(guards_t *g);
void suspect_tell_above(guards_t *g); /* once there is one */

/* Adds to a death that may follow from it. */
void suspect_blame(const guards_t *g, struct death *d);

/* ---- calls.c ---- */

void calls_reset(guards_t *g); /* another generation */
void calls_begin(guards_t *g); /* the root: all wait, from now on; */
void calls_end(guards_t *g);   /* not any more */

/* The root: all have waited for waited_s now. */
void calls_look(guards_t *g, int waited_s);

void calls_take_look(guards_t *g, int round);
void calls_take(guards_t *g, const struct death *d);

/* ---- round.c; where there are no restarts, nor a stop or a requeue, it is only counted who is there ---- */

void round_start(guards_t *g, int generation);
void round_over(guards_t *g);
void round_ask(guards_t *g);        /* this guard's program, or one below, was asked to end */
void round_look(guards_t *g);       /* at every change, and at round_due */
uint64_t round_due(const guards_t *g); /* 0: at changes only */
void round_take_leave(guards_t *g, const struct link *l); /* one below is about to be dropped */
void round_tell_above(guards_t *g); /* once there is one */
void round_stop(guards_t *g);       /* tells all who do not know */

/* Whether a generation follows this death: in d->next and d->of. */
void round_decide(guards_t *g, struct death *d);

/* A generation may follow: its number, and which of how many restarts it would be. */
void round_next(const guards_t *g, struct death *d);

/* What a count (TOLD_DONE and the like) is of: it counts only where the one above is as far. */
int round_of(const guards_t *g, int what);

/* In a step that Slurm does not end when a task fails: some have not come in time, and it does not go on without. */
bool round_missing(guards_t *g, struct death *ret);

/* At g->stuck_at: who keeps the next generation from beginning. False: those that have not come, and it goes on without
 * them. */
bool round_stuck(guards_t *g, struct death *ret);

/* ---- verdict.c ---- */

#define LOST_S 0.2 /* from the loss of a guard to the verdict: at a step's end Slurm kills them all */

/* All below are told of d, unless that is known already; is_ours: and the user, by this guard. */
void verdict_decide(guards_t *g, const struct death *d, bool is_ours);

void verdict_hear(guards_t *g, const struct death *d); /* of this guard's program, or of one below */
void verdict_hear_absent(guards_t *g); /* the root, of those whose loss no connection tells, or not yet */
void verdict_hear_asked(guards_t *g);  /* at g->asked_at */
void verdict_settle(guards_t *g);      /* at g->settle_at */

/* This is the root from now on. What was on its way up is decided here, and anew: of what the old root had said not all
 * may have heard. The user has. */
void verdict_take_over(guards_t *g);

/* ---- loss.c ---- */

/* The connection has gone: of_node is what that is of another node. */
void loss_take(guards_t *g, struct link *l, enum death_kind of_node, bool is_certain);
void loss_take_silent(guards_t *g); /* those that say nothing any more */
void loss_count(guards_t *g);       /* as a death, at g->lost_at */
void loss_tell_below(guards_t *g);  /* above: a node's leader below this one has gone */

#endif
