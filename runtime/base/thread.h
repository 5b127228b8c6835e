/* thread.h - threads of ours in a process that belongs to the user's program. */
#ifndef DDP_BASE_THREAD_H
#define DDP_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* Runs f(arg) in a thread with all signals blocked, also in threads that it starts. So the program alone handles its
 * signals, no system call in the thread is interrupted, and a limit on the size of files (SIGXFSZ) is an error of the
 * write. 0, or an errno, to which errno is also set. */
int thread_start(pthread_t *ret, void *(*f)(void *), void *arg);

/* A condition whose waits end by clock.h: thread_wait_until waits until it is signalled, or the deadline: ETIMEDOUT. */
void thread_cond_init(pthread_cond_t *ret);
int thread_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t deadline);

/* Which limits there are on threads: what an error says of one that cannot be started. */
#define THREAD_LIMITS "(ulimit -u, ulimit -v)"

#endif
