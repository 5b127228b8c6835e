/* thread.h - threads of ours in somebody else's process. */
#ifndef DDP_BASE_THREAD_H
#define DDP_BASE_THREAD_H

#include <pthread.h>

/* Runs f(arg) in a thread with all signals blocked, also in threads that it starts: signals are the program's own
 * business, no call there is interrupted, and a limit on the size of files (SIGXFSZ) is an error of the write. 0, or an
 * errno, which errno is then too. */
int thread_start(pthread_t *ret, void *(*f)(void *), void *arg);

#endif
