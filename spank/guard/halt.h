/* halt.h - a program that somebody has stopped (SIGSTOP), for which the others wait. With a step that is
 * suspended as a whole the guard stands still, too: then nobody is to blame. Pure but for the clock. */
#ifndef DDP_SPANK_GUARD_HALT_H
#define DDP_SPANK_GUARD_HALT_H

#include <stdbool.h>
#include <stdint.h>

#define GUARD_HALT_S 3.0 /* until it is told */

struct guard_halt {
    int signo;   /* 0: the program runs */
    uint64_t at; /* when that is to be told; 0: it has been, or need not */
    bool is_told;
};

/* The program has been stopped by this signal; 0: it goes on. True: that is to be told, for the halt was. */
bool guard_halt_take(struct guard_halt *h, int signo);

int guard_halt_wait_ms(const struct guard_halt *h); /* -1: for ever */

/* True, once: the halt is to be told. */
bool guard_halt_step(struct guard_halt *h);

#endif
