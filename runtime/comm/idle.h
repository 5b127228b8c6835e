/* idle.h - the sleep of the communicator's thread while there is nothing for it to drive. Private to runtime/comm.
 *
 * Who starts a work and waits for it at once drives it himself: to wake the thread for that costs more than a small
 * work takes, and a thread that then wants the engine's lock costs as much again. So the thread is woken for works that
 * are not to be waited for soon; after others it looks by itself, without the lock, whether works are left that nobody
 * drives: after a time that doubles while it finds none, and so often only after the last such start. */
#ifndef DDP_COMM_IDLE_H
#define DDP_COMM_IDLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct idle {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_called;
    bool is_looking; /* waits for the time of the next look */
    int looks;       /* so many are left, */
    uint64_t ns;     /* each after so long */
};

void idle_init(struct idle *i);
void idle_clear(struct idle *i);

void idle_wake(struct idle *i);      /* ends the thread's sleep, also one that it is about to begin */
void idle_wake_soon(struct idle *i); /* has it look for a while */

/* The thread's sleep: until idle_wake, or a look for which is_left(arg) is true. */
void idle_wait(struct idle *i, bool (*is_left)(void *arg), void *arg);

#endif
