#include <config.h> /* pipe2, pthread_clockjoin_np */

#include "runtime/sched/deadline.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/num.h"
#include "runtime/base/thread.h"

enum { NOTHING, ASKING, ANSWERED, UNANSWERED, CANNOT_ASK };

/* From seconds since 1970 to our clock. */
static double on_our_clock(int64_t end_s)
{
    struct timespec now;
    if (end_s <= 0 || clock_gettime(CLOCK_REALTIME, &now) < 0)
        return DEADLINE_NONE;
    return (double)clock_ns() / 1e9 + (double)(end_s - (int64_t)now.tv_sec) - (double)now.tv_nsec / 1e9;
}

static void *ask(void *arg)
{
    struct deadline *d = arg;
    struct slurm_job job;
    ddp_error_t e;
    int rc = slurm_ask(d->id, deadline_in(DEADLINE_ASK_S), d->cancel_fd[0], &job, &e);
    if (rc == 0) {
        d->answer_end_s = job.end_s;
        d->answer_suspended_s = job.suspended_s;
    } else {
        snprintf(d->warning, sizeof d->warning, "%s", e.text);
    }
    bool is_there = rc == 0 || e.code != ENOENT; /* scontrol */
    atomic_store(&d->answer, rc == 0 ? ANSWERED : is_there ? UNANSWERED : CANNOT_ASK);
    return NULL;
}

/* Takes what the thread, which has ended, has found. */
static void take(struct deadline *d)
{
    int answer = atomic_load(&d->answer);
    d->has_thread = false;
    if (answer == ANSWERED) {
        d->end_s = on_our_clock(d->answer_end_s);
        d->suspended_s = (double)d->answer_suspended_s;
        d->warning[0] = 0;
    } else if (answer == UNANSWERED && d->end_s == DEADLINE_NONE) {
        d->again_at = deadline_in(DEADLINE_AGAIN_S);
    }
}

/* Takes an answer that has come. */
static void collect(struct deadline *d)
{
    if (!d->has_thread || atomic_load(&d->answer) == ASKING)
        return;
    pthread_join((pthread_t)d->thread, NULL);
    take(d);
}

bool deadline_await(struct deadline *d, uint64_t deadline)
{
    struct timespec until = {(time_t)(deadline / NS_PER_S), (long)(deadline % NS_PER_S)};
    if (!d->has_thread || pthread_clockjoin_np((pthread_t)d->thread, NULL, CLOCK_MONOTONIC, &until) != 0)
        return false;
    take(d);
    return true;
}

void deadline_ask(struct deadline *d)
{
    pthread_t thread;
    collect(d);
    if (!d->is_in_job || d->has_thread)
        return;
    d->again_at = 0;
    atomic_store(&d->answer, ASKING);
    d->has_thread = thread_start(&thread, ask, d) == 0;
    d->thread = (unsigned long)thread;
    if (!d->has_thread)
        atomic_store(&d->answer, NOTHING);
}

void deadline_open(struct deadline *d)
{
    int64_t end_s = num_variable("SLURM_JOB_END_TIME", INT64_MAX);
    *d = (struct deadline){.end_s = DEADLINE_NONE, .cancel_fd = {-1, -1}};
    d->is_in_job = slurm_job_id(d->id) && pipe2(d->cancel_fd, O_CLOEXEC) == 0;
    if (!d->is_in_job)
        return;
    if (end_s)
        d->end_s = on_our_clock(end_s);
    else
        deadline_ask(d);
}

double deadline_end_s(struct deadline *d)
{
    collect(d);
    if (deadline_is_past(d->again_at))
        deadline_ask(d);
    return d->is_in_job ? d->end_s : DEADLINE_NONE;
}

void deadline_close(struct deadline *d)
{
    if (!d->is_in_job)
        return;
    io_close(d->cancel_fd[1]);
    if (d->has_thread)
        pthread_join((pthread_t)d->thread, NULL);
    io_close(d->cancel_fd[0]);
    *d = (struct deadline){.cancel_fd = {-1, -1}};
}
