/* elastic.h - the guards of a step that goes on when nodes are lost, for unit tests: what all of them hear of that. */
#ifndef DDP_T_UNIT_SPANK_ELASTIC_H
#define DDP_T_UNIT_SPANK_ELASTIC_H

#include "t/unit/spank/members.h"

#define WAITS (-1) /* the rank of a task that has none */

extern struct elastic {
    bool is_dead[MEMBERS_MAX];
    bool has_told[MEMBERS_MAX]; /* the guard a verdict to the user */
    char news[200];             /* the last that any guard had for the user */
} elastic;

void elastic_start(struct members *m, int nodes, int ranks);
void elastic_kill_node(struct members *m, int node);
void elastic_stop_node(struct members *m, int node); /* a node of one rank stands still */

void elastic_hear(struct members *m, int r, struct heard *h);
#define elastic_hear_until(m, r, h, condition)                                                                         \
    do                                                                                                                 \
        elastic_hear(m, r, h);                                                                                         \
    while (!(condition))
void elastic_hear_verdict(struct members *m); /* all hear that another generation follows */

/* It begins when all programs have gone; each task has that rank then, or WAITS. */
void elastic_begin_next(struct members *m, int generation, int size, const int *rank);
void elastic_go_on(struct members *m, int generation, int size, const int *rank); /* both */

struct death elastic_hear_the_end(struct members *m); /* the last verdict */
void elastic_end(struct members *m); /* after a loss, for want of nodes: when all programs have gone */
void elastic_finish(struct members *m, const int *rank); /* those that wait have done so from the start */

/* The root's line, which may come behind its generation. */
void elastic_hear_news(struct members *m, int root, const char *want);

#endif
