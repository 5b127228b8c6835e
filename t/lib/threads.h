/* threads.h - the ranks of a made-up job as threads over one mapping, so that ThreadSanitizer sees them share memory:
 * through two mappings of one memfd it is blind. For programs built with -fsanitize=thread and
 * -Wl,--wrap=mmap,--wrap=munmap: these then map each part of a shared file once per process. */
#ifndef DDP_T_LIB_THREADS_H
#define DDP_T_LIB_THREADS_H

#include "t/lib/ranks.h"

/* As job_run, with threads for ranks; j->shared is NULL. */
bool threads_run(struct job *j, rank_f *f);

/* A child runs two threads, each of which runs `race` with a mapping of its own of one shared page. True if the
 * sanitizer ends the child: it would have told of a race. */
bool threads_race_is_caught(void (*race)(int *shared));

#endif
