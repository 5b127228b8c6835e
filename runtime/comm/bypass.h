/* bypass.h - whether ranks of a node write what others read past their caches.
 *
 * Cores that share a cache read from each other 10 to 35 GB/s, faster than from memory. Cores that do not (two chiplets
 * of a processor, two sockets) may fetch what is still in another's cache at 2.5 GB/s, where it would come from memory
 * at 15 (measured on two cores of an EPYC, whose virtual machine moves them between chiplets every few seconds). So one
 * rank of a node tries both now and then, TRIAL operations each at a period's end, and keeps what is faster. Pure. */
#ifndef DDP_COMM_BYPASS_H
#define DDP_COMM_BYPASS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BYPASS_TRIAL = 12,   /* operations, of which the first are a mixture: ranks are not at the same one */
    BYPASS_LAST = 4,     /* operations of a trial that count, the fastest of them */
    BYPASS_FIRST = 256,  /* operations of a period, which is twice as long each time that nothing changes, */
    BYPASS_LONGEST = 8192, /* at most */
};

struct bypass {
    bool is_on;          /* what is in use */
    uint64_t from;       /* the operation that the period begins with */
    uint64_t period;     /* operations */
    uint64_t best_ns[2]; /* of the trial in use, of the other trial */
};

struct bypass bypass_init(void);

/* How operation n is to be written: true past the caches. */
bool bypass_of(const struct bypass *b, uint64_t n);

/* Operation n, as large as all that are told of, took this long. In ascending order of n. */
void bypass_took(struct bypass *b, uint64_t n, uint64_t ns);

#endif
