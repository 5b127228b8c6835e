/* members.h - guards of a step for unit tests: a process each, as on the cluster, over real sockets. Nodes are those of
 * the facts, 127.0.0.1 and so on. */
#ifndef DDP_T_UNIT_SPANK_MEMBERS_H
#define DDP_T_UNIT_SPANK_MEMBERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "spank/guards/guards.h"
#include "t/unit/unit.h"

enum { MEMBERS_MAX = 9000 };
#define EXIT(code) ((code) << 8)

/* What a test tells a member. */
enum order {
    DO_FAIL_1 = 1, DO_FAIL_2, DO_DIE, DO_FINISH, DO_GONE, DO_CARD, DO_EXPECT_END, DO_STOP, DO_END_STOP, DO_SAVE,
    DO_BE_STOPPED, DO_REQUEUED, DO_LEAVE, DO_HALT, DO_GO_ON, DO_TELL, /* libddp's word: rank 3 was it */
    DO_TELL_THEN, /* ... and what came of it */
    DO_DIE_AS_1, /* as rank 1 */
    DO_COMPUTE, DO_WAIT,
    DO_LACK_MEMORY, /* another process of its group was killed */
    DO_LINGER, /* its program is on its way out until DO_DIE */
    DO_REST, DO_WAKE,
    DO_BE_ENDED /* by SIGTERM, which its guard has not had */
};

struct member {
    pid_t pid;
    int fd; /* to and from it */
};

/* What a member says when it has joined, and whenever one of these changes. */
struct heard {
    struct death verdict;
    bool is_ours;
    int generation;
    bool is_stopping, wants_requeue, is_warned, has_answered;
    bool is_last, are_few; /* in an elastic step: its verdict is, and it need not wait for nodes; guards_are_few */
    char card[16];
    int rank, size;     /* in that generation; -1: it waits */
    int n_missing;      /* guards_missing */
    char news[200];
};

struct members {
    int n, per_node, restarts;
    bool saves, requeues;
    double join_s, stuck_s, wake_s; /* 0: as the plugin has it */
    int silent_s; /* 0: the test is about something else, and hears of no silence, which a busy machine may make */
    int idle_s;   /* 0: as the plugin has it */
    const char *const *answers; /* of each member, when it is asked in which call it waits; NULL: none answers */
    int spares, min_nodes;  /* 0 and 0: not elastic */
    char token[GUARDS_TOKEN_LEN + 1];
    int base_port;
    struct member of[MEMBERS_MAX];
};

/* A step of `nodes` times `ranks`, in which nobody runs yet; members_start_all returns when all have joined. */
void members_set_up(struct members *m, int nodes, int ranks);
void members_start(struct members *m, int rank);
void members_start_all(struct members *m, int nodes, int ranks);
void members_kill(struct members *m, int rank);
void members_end(struct members *m);

int members_port(const struct members *m, int node); /* the first of those where its leader may listen */
void members_tell(struct members *m, int rank, enum order order);

/* The next that it says; false: it has ended, or says nothing for so long. */
bool members_hears(struct members *m, int rank, double seconds, struct heard *ret);
void members_wait_joined(struct members *m, int rank);
void members_wait_end(struct members *m, int rank); /* it leaves by itself, having said nothing more */

/* All but `dead` (-1: all) hear of the same death; one of them, `teller`, tells the user. */
void members_all_hear(struct members *m, int dead, enum death_kind kind, int rank, int how, int teller);

#endif
