/* watch.c - what a guard does beside a program, until that and all others are over. */
#include "config.h"
#include "spank/guard/impl.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "runtime/base/clock.h"
#include "runtime/base/notice.h"
#include "spank/guard/process.h"

/* What programs have left behind is ended before the next generation, and where the step ends by a failure: it would
 * hold the step up, and without this process Slurm may not find it (proctrack/linuxproc). What ended well, or has
 * saved, may leave something that is still to be done. */
static bool clears_up(const struct guard *g)
{
    bool is_end = g->f.ends_step || g->said.kind == DEATH_SRUN;
    return g->said.next || (is_end && g->said.kind != DEATH_NONE && g->said.kind != DEATH_STOPPED);
}

/* What a program of libddp says, too; it may end at once. */
static void tell_program(const struct guard *g, const struct death *d)
{
    char text[NOTICE_TEXT_MAX + 1];
    guard_door_tell_death(g->door, d->rank, death_say(d, text, sizeof text));
}

/* The restart that was to follow does not. */
static bool is_without(const struct guard *g, const struct death *d)
{
    return g->said.next && !d->next && g->said.kind == d->kind && g->said.rank == d->rank;
}

/* To the user, and for the record. A death is said once: what comes instead of a restart is the guards' news. */
static void tell_user(struct guard *g, const struct death *d)
{
    bool is_same = is_without(g, d);
    if (!is_same || !g->has_said)
        guard_say_death(g, d);
    if (guard_keeps_time(g) && d->kind != DEATH_STOPPED && !is_same)
        guard_record_failure(&g->record, d);
}

/* The verdict is known: this guard says it if it is its own, and gives a program that goes on some time to end. */
static void take_verdict(struct guard *g, const struct death *d, bool is_ours)
{
    bool is_srun_since = d->kind == DEATH_SRUN && g->said.kind != DEATH_SRUN;
    bool is_known = g->said.kind != DEATH_NONE && g->said.next == d->next && !is_srun_since;
    if (is_ours && !(is_known && g->has_said))
        tell_user(g, d);
    g->has_said = is_ours;
    if (is_known)
        return;
    g->is_called_off = is_without(g, d) && guards_is_stopping(g->guards);
    g->said = *d;
    g->verdict_until = 0;
    if (!g->f.ends_step && !d->next && d->kind != DEATH_SRUN)
        return;
    if (g->door)
        tell_program(g, d);
    bool is_stop = d->kind == DEATH_STOPPED, is_again = d->next || g->f.is_elastic; /* elsewhere, perhaps */
    bool is_lost = g->f.is_elastic && (death_is_nodes(d) || d->kind == DEATH_MISSING);
    g->term_at = deadline_in(is_stop ? GUARD_STOP_TERM_S : is_again ? GUARD_AGAIN_TERM_S : GUARD_TERM_S);
    g->kill_at = deadline_in(is_stop ? GUARD_STOP_KILL_S : is_lost ? GUARDS_LOST_KILL_S :
                             is_again ? GUARD_AGAIN_KILL_S : GUARD_KILL_S);
    g->rests_at = g->rests_at ? clock_ns() : 0; /* they have not lost more than from now on */
    guard_reap(g);
}

static void warn(struct guard *g)
{
    g->is_warned = true;
    const char *what = g->f.restarts > 0 ? "programs will not be started again"
                       : g->f.requeues   ? "the job will not be requeued"
                       : g->f.saves      ? "not all programs will be stopped together"
                                         : "nobody is told of a death there, unless those programs have ended already";
    process_say("ddp: warning: %d of %d guards cannot be reached (between nodes they need the ports from port_min to "
                "port_max, and the same slurm-ddp: ddp check says which node has another): %s",
                guards_missing(g->guards), g->f.size, what);
}

/* A node is lost, or has not come, and srun would wait for it. */
static bool has_lost(const struct guard *g)
{
    enum death_kind kind = g->said.kind;
    bool is_nodes = kind == DEATH_GONE || kind == DEATH_ABSENT || kind == DEATH_SILENT || kind == DEATH_DEAF ||
                    kind == DEATH_MISSING;
    if (!g->guards || !g->f.ends_step || guards_are_few(g->guards))
        return false;
    return guards_has_lost(g->guards) || (g->has_said && is_nodes && !g->said.next);
}

/* Of the other nodes one may be lost without a word yet, for which srun would wait. */
static bool is_awaiting(const struct guard *g)
{
    bool is_over = g->has_said && !g->said.next && g->f.ends_step && !g->f.is_elastic;
    return is_over && g->guards && guard_keeps_time(g) && guards_has_others(g->guards);
}

/* The last guard has srun end, or cancels the step, last of all: Slurm's SIGKILL may be faster than its own end. */
static bool is_releasing(struct guard *g)
{
    if (!has_lost(g) && !is_awaiting(g))
        return false;
    if (!g->release_until)
        g->release_until = deadline_in(GUARD_KILL_S + 2);
    if (!guards_is_last(g->guards) && deadline_left_ns(g->release_until) > 0)
        return true;
    if (!has_lost(g))
        return false;
    if (!g->stop.is_released && g->f.is_elastic && g->srun && lifeline_say(g->srun, g->f.token, LIFELINE_LAST))
        g->stop.is_released = true;
    guard_stop_release(&g->stop);
    return guard_stop_is_busy(&g->stop);
}

/* Whether others run srun alone may know, who would wait for them. A spare's end is no good one then, either: it may be
 * all that srun hears of the step. */
static void end_as_few(struct guard *g)
{
    if (!g->guards || !g->f.ends_step || !guards_are_few(g->guards))
        return;
    if (g->srun)
        lifeline_say(g->srun, g->f.token, LIFELINE_FEW);
    if (g->waits && g->said.kind != DEATH_NONE)
        g->status = W_EXITCODE(EXIT_FAILURE, 0);
}

static const char *end_of(const struct guard *g)
{
    bool is_stopping = g->guards && (guards_is_stopping(g->guards) || g->end_at);
    if (g->said.kind == DEATH_STOPPED || g->is_called_off || (g->said.kind == DEATH_NONE && is_stopping))
        return "stopped";
    return g->said.kind == DEATH_NONE && g->status == 0 ? "done" : "failed";
}

/* Slurm's controller, too, has its part of the end in the job's comment. */
static bool has_recorded(struct guard *g)
{
    if (guard_keeps_time(g) && !(g->guards && guards_are_few(g->guards)))
        guard_record_end(&g->record, end_of(g));
    return !guard_record_is_busy(&g->record);
}

/* Of a program that is on its way out there is more to say. */
static void answer(struct guard *g)
{
    guard_reap(g);
    if (g->has_ended || !process_is_ending(g->program))
        guards_answer(g->guards);
}

/* What the program has left behind may still save, as the program might: until SIGKILL. */
static bool is_clearing(const struct guard *g)
{
    siginfo_t child;
    if (!clears_up(g))
        return false;
    if (g->kill_at)
        return waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0;
    process_signal_below(SIGKILL);
    return false;
}

/* It has not died alone, if there is no verdict now. */
static void step_alone(struct guard *g, const struct death *verdict)
{
    if (!g->alone_until || (!verdict && !g->is_asked && deadline_left_ns(g->alone_until) > 0))
        return;
    g->alone_until = 0;
    if (!verdict)
        guards_finish(g->guards, false);
}

/* Ends this process if it is time. */
static void look(struct guard *g)
{
    if (g->guards && guards_is_called(g->guards))
        answer(g);
    bool is_ours = false, is_late = deadline_is_past(g->verdict_until);
    const struct death *d = g->guards ? guards_verdict(g->guards, &is_ours) : NULL;
    if (d)
        take_verdict(g, d, is_ours);
    step_alone(g, d);
    if (d && guards_generation(g->guards) != g->generation) /* all had gone but this one */
        return;
    if (is_late && !d && g->said.kind == DEATH_NONE) {
        g->said = guard_make_death(g);
        guard_say_death(g, &g->said);
        guard_record_failure(&g->record, &g->said);
    }
    const char *news = g->guards ? guards_news(g->guards) : NULL;
    if (news)
        process_say("ddp: %s", news);
    if (g->guards && guards_missing(g->guards) && !g->is_warned)
        warn(g);
    bool is_needed = d && !g->f.ends_step && d->kind != DEATH_SRUN && !guards_is_last(g->guards); /* others go on */
    bool is_end = d ? !d->next && !is_needed : is_late || !g->guards || guards_is_free(g->guards);
    bool is_early = guard_stop_is_busy(&g->stop) || (g->guards && guards_await_nodes(g->guards));
    if (g->has_ended && is_end && !is_early && has_recorded(g) && !is_clearing(g) && !is_releasing(g)) {
        end_as_few(g);
        if (g->guards)
            guards_leave(g->guards);
        process_end_as(g->status);
    }
}

/* ---- beside the program ---- */

/* A child of the guard's own would get the signals for what the program has left behind. */
static bool is_holding(const struct guard *g)
{
    return g->has_ended && guard_has_child(g);
}

/* Slurm's SIGTERM has gone past the guard to all that the program has started: it may be saving. One that comes to the
 * guard goes to the program alone. */
static bool is_told(const struct guard *g, int signo)
{
    return signo == SIGTERM && g->has_ended && !g->is_asked && !g->said.next && death_is_by(g->status, SIGTERM);
}

static void end_program(struct guard *g, uint64_t *when, int signo)
{
    if (!*when || deadline_left_ns(*when) > 0 || is_holding(g) || guard_is_waking())
        return;
    *when = 0;
    if (clears_up(g) && !guard_has_child(g) && !is_told(g, signo))
        process_signal_below(signo); /* a shell does not pass it on */
    else if (!g->has_ended)
        process_signal_tree(g->program, signo);
}

static void step_stop(struct guard *g)
{
    guard_step_end(g);
    if (g->guards && guards_is_stopping(g->guards))
        guard_give_stop(g);
    bool is_due = (guard_keeps_time(g) || guard_stop_is_busy(&g->stop)) && guard_stop_step(&g->stop);
    if (is_due && guard_keeps_time(g))
        guard_stop_all(g, false);
    if (g->guards && guards_wants_requeue(g->guards)) {
        guard_stop_requeue(&g->stop);
        if (!guard_stop_is_busy(&g->stop))
            guards_requeued(g->guards);
    }
}

/* What waited for its child to end goes on. */
static void step_record(struct guard *g)
{
    bool was_busy = guard_record_is_busy(&g->record);
    guard_record_step(&g->record);
    if (was_busy && !guard_record_is_busy(&g->record))
        guard_reap(g);
}

static int earlier(int ms, int other)
{
    return ms < 0 || (other >= 0 && other < ms) ? other : ms;
}

static int wait_ms(const struct guard *g)
{
    bool is_held = is_holding(g);
    const uint64_t when[] = {g->said.kind == DEATH_NONE ? g->verdict_until : 0, is_held ? 0 : g->term_at,
                             is_held ? 0 : g->kill_at, g->end_at, g->alone_until,
                             guard_stop_is_busy(&g->stop) || g->stop.is_released ? 0 : g->release_until};
    int ms = g->guards ? guards_wait_ms(g->guards) : -1;
    ms = earlier(ms, guard_srun_wait_ms(g));
    ms = earlier(ms, guard_keeps_time(g) || guard_stop_is_busy(&g->stop) ? guard_stop_wait_ms(&g->stop) : -1);
    ms = earlier(ms, g->has_ended ? -1 : guard_halt_wait_ms(&g->halt));
    ms = earlier(ms, guard_activity_wait_ms(g));
    ms = earlier(ms, guard_record_wait_ms(&g->record));
    for (size_t i = 0; i < sizeof when / sizeof *when; i++)
        if (when[i])
            ms = earlier(ms, deadline_left_ms(when[i]));
    return ms;
}

void guard_watch(struct guard *g)
{
    while (!g->guards || guards_generation(g->guards) == g->generation) {
        step_stop(g); /* first: the program may have ended before */
        look(g);
        if (g->guards && guards_generation(g->guards) != g->generation)
            return;
        if (g->guards && guards_wants_requeue(g->guards) && !guard_stop_is_busy(&g->stop))
            continue; /* it is asked for above */
        struct pollfd p[] = {{.fd = g->signals, .events = POLLIN}, {.fd = g->stepd, .events = POLLIN},
                             {.fd = g->guards ? guards_fd(g->guards) : -1, .events = POLLIN},
                             {.fd = g->door ? guard_door_fd(g->door) : -1, .events = POLLIN},
                             guard_srun_poll(g, guard_keeps_time(g)),
                             {.fd = guard_stop_fd(&g->stop), .events = POLLIN},
                             {.fd = guard_record_fd(&g->record), .events = POLLIN},
                             {.fd = g->waiting.child.in, .events = POLLIN}};
        poll(p, sizeof p / sizeof *p, wait_ms(g));
        if (p[1].revents)
            guard_lose_stepd(g);
        if (p[0].revents)
            guard_take_signal(g);
        if (p[3].revents)
            guard_step_door(g);
        step_record(g);
        guard_srun_step(g);
        guard_step_halt(g);
        if (g->guards)
            guards_step(g->guards);
        if (g->guards && guards_is_broken(g->guards))
            guard_go_with_the_node();
        guard_activity_step(g); /* behind it: what it asks */
        if (g->door && g->guards)
            guard_door_tell(g->door, guards_card(g->guards));
        end_program(g, &g->term_at, SIGTERM);
        end_program(g, &g->kill_at, SIGKILL);
    }
}
