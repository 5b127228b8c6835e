/* stop.h - SIGTERM as a wish. It sets a flag and nothing else; the flag rides the next reduction of gradients, so that
 * all ranks stop after the same step, and a rank that Slurm terminates because another died still gets to say so. */
#ifndef DDP_RUNTIME_STOP_H
#define DDP_RUNTIME_STOP_H

#include <signal.h>
#include <stdbool.h>

struct stop {
    struct sigaction before;
    bool is_caught;
};

/* Catches SIGTERM, once: a second one acts as it would have. A handler that the program has, or SIG_IGN, stays. */
void stop_catch(struct stop *s);
void stop_release(struct stop *s); /* a zeroed struct is allowed */

/* Has SIGTERM arrived since stop_catch? */
bool stop_is_wanted(const struct stop *s);

#endif
