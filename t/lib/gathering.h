/* gathering.h - srun's side of a gather, nodes and strangers in one test program, over real sockets. */
#ifndef DDP_T_GATHERING_H
#define DDP_T_GATHERING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/gather/impl.h"

#define PATIENCE_S 20.0

/* srun, and what it has printed. */
struct srun {
    gather_t *gather;
    int out[2];
    char address[128], printed[32768];
};

void srun_begin(struct srun *s, double collect_s); /* listens; empties node_log */
const char *srun_end(struct srun *s);              /* everything that it has printed, once it is gone */

/* A node: a thread that sends a text. */
struct node {
    pthread_t thread;
    const char *address, *host, *list, *text;
    char name[16];
    bool is_printed;
    double wait_s; /* 0: PATIENCE_S */
};

extern char node_log[8192];  /* what nodes printed themselves */
extern char node_note[512]; /* what a node wrote into its own log last */

void node_begin(struct node *n, const char *address, const char *list, int number, const char *text); /* nNUMBER */
bool node_end(struct node *n);  /* whether srun printed */
bool node_send(struct node *n); /* the same, in this thread; the fields are set by the caller */

int knock(const char *address); /* a connection */
bool is_shut(int fd);           /* srun has closed it without a word; closes it here too */

/* Sends a head, and n bytes after it. */
void tell(int fd, const char *token, const uint32_t len[PART_COUNT], const char *body, size_t n);

/* The same on a new connection, which it returns. */
int say(const char *address, const char *token, const uint32_t len[PART_COUNT], const char *body, size_t n);

/* What was said before this has been dealt with after it: srun takes connections in order. */
void wait_for_srun(const char *address);

#endif
