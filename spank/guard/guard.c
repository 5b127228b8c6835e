#include "config.h"
#include "spank/guard/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/cgroup.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/notice.h"
#include "spank/guard/impl.h"
#include "spank/guard/process.h"

/* What a guard does once. */
static void be_guard(struct guard *g)
{
    ddp_error_t e;
    guard_record_open(&g->record, &g->f);
    prctl(PR_SET_DUMPABLE, 0); /* it holds what slurmstepd has in memory; and the program has left its core itself */
    if (g->f.restarts == 0)
        process_let_go((int[]){g->signals, g->stepd}, 2);
    else
        process_let_go_pipes();
    if (g->f.is_whole) /* first: the program is on its way there */
        g->door = guard_door_open(g->f.token, g->f.rank, g->f.restarts > 0, &e);
    if (g->f.is_whole && !g->door)
        process_say("ddp: warning: rank %d: programs of libddp cannot start: %s", g->f.rank, e.text);
    g->guards = guards_open(&g->f);
    g->why_alone = g->guards ? 0 : errno;
    if (!g->guards)
        process_say("ddp: warning: rank %d: its guard cannot hear the others (ulimit -n, ulimit -v): neither knows of "
                    "the other's end: %s", g->f.rank, strerror(g->why_alone));
    guard_waits_init(&g->waiting);
    guard_stop_open(&g->stop, &g->f, &g->record);
}

/* Nobody brings rank 0's card here, for which programs of libddp would wait until their deadline. */
static void tell_alone(struct guard *g)
{
    char text[NOTICE_TEXT_MAX + 1];
    snprintf(text, sizeof text, "the guard of rank %d (%.100s) cannot hear the others (ulimit -n, ulimit -v): %s",
             g->seat.rank, g->f.name, strerror(g->why_alone));
    guard_door_tell_death(g->door, g->seat.rank, text);
}

/* Beside one generation. */
static void be_beside(struct guard *g)
{
    g->began = clock_ns();
    g->kills = cgroup_memory_kills("");
    g->has_ended = g->waits;
    g->is_stopped = false;
    g->sent = g->missed;
    g->missed = 0;
    g->status = 0;
    g->verdict_until = g->alone_until = g->term_at = g->kill_at = 0;
    g->said = (struct death){.kind = DEATH_NONE};
    g->halt = (struct guard_halt){0};
    g->activity = (struct activity){0};
    g->has_said = false;
    if (g->door)
        guard_door_begin(g->door, g->generation, &g->seat);
    if (g->door && !g->guards)
        tell_alone(g);
    guard_record_begin(&g->record, g->seat.restart);
    if (guard_keeps_time(g))
        guard_record_start(&g->record, g->seat.size);
    if (g->waits && g->guards)
        guards_finish(g->guards, true);
    if (g->guards && guards_is_stopping(g->guards)) /* after the last program's end */
        guard_give_stop(g);
    else if ((g->is_asked || g->sent) && !g->waits)
        kill(g->program, g->is_asked ? SIGTERM : g->sent);
    guard_watch(g);
    g->generation = guards_generation(g->guards);
}

static void be_program(pid_t guard)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard) /* it died before that */
        _exit(1);
}

/* Without a part in the generation there is no child, as if it were another's turn. */
static pid_t begin(struct guard *g)
{
    g->waits = !guards_seat(&g->f, g->guards, &g->seat);
    return g->program = g->waits ? 0 : fork();
}

/* The others find that the guard has gone, and cannot know why. */
static _Noreturn void go_without(const struct guard *g)
{
    process_say("ddp: rank %d (%s): no process to start its program again: %s (see ulimit -u, the cgroup's pids.max)",
                g->seat.rank, g->f.name, strerror(errno));
    _exit(1);
}

int guard_start(const struct guards_facts *f, struct seat *ret, ddp_error_t *errp)
{
    struct guard g = {.f = *f};
    struct process_signals before;
    sigset_t all;
    pid_t self = getpid();
    sigfillset(&all);
    g.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (g.signals < 0)
        return error_errno(errp, "guard: no descriptor for signals");
    g.stepd = (int)syscall(SYS_pidfd_open, getppid(), 0); /* a kernel before 5.3 has none */
    process_keep_signals(&before);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* the program may end, and leave orphans, at once; it does not inherit this */
    while (begin(&g) > 0 || g.waits) {
        if (!g.guards)
            be_guard(&g);
        be_beside(&g);
    }
    if (g.program == 0)
        be_program(self);
    else if (g.guards) /* as a program that could not start */
        go_without(&g);
    *ret = g.seat;
    int rc = g.program == 0 ? g.generation : error_errno(errp, "guard: no process beside the program");
    if (rc < 0)
        prctl(PR_SET_CHILD_SUBREAPER, 0);
    process_give_back_signals(&before);
    close(g.signals);
    io_close(g.stepd);
    return rc;
}
