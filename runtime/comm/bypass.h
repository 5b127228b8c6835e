/* bypass.h - whether ranks of a node write what others read past their caches.
 *
 * Cores that share a cache read from each other 10 to 35 GB/s, faster than from memory. Cores that do not (two chiplets
 * of a processor, two sockets) may fetch what is still in another's cache at 2.5 GB/s, where it would come from memory
 * at 15 (measured on two cores of an EPYC, whose virtual machine moves them between chiplets every few seconds). So one
 * rank of a node tries the other way now and then, for the last TRIAL operations of a period, and keeps what is faster.
 * Ranks are not at the same operation: one may be LAST - 1 behind another. Pure. */
#ifndef DDP_COMM_BYPASS_H
#define DDP_COMM_BYPASS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BYPASS_TRIAL = 12,   /* operations, */
    BYPASS_LAST = 4,     /* of which the fastest of the last ones counts; the first are a mixture, and so may be those
                            just before */
    BYPASS_FIRST = 256,  /* operations of a period, which is twice as long each time that nothing changes, */
    BYPASS_LONGEST = 8192, /* at most */
};

struct bypass {
    bool is_on;          /* what is in use */
    uint64_t from;       /* the operation that the period begins with */
    uint64_t period;     /* operations */
    uint64_t best_ns[2]; /* in use, before the trial; of the trial */
};

struct bypass bypass_init(void);

/* How operation n is to be written: true past the caches. Only those are counted that are told of below. */
bool bypass_of(const struct bypass *b, uint64_t n);

/* Operation n, which is as large as the others, took this long. In ascending order of n. */
void bypass_took(struct bypass *b, uint64_t n, uint64_t ns);

#endif
