/* watch.c - what a guard does beside a program, until that and all others are over. */
#include "config.h"
#include "spank/guard/impl.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/cgroup.h"
#include "runtime/base/clock.h"
#include "runtime/base/notice.h"
#include "spank/guard/process.h"

bool guard_keeps_time(const struct guard *g)
{
    return !g->guards || (guards_is_alone(g->guards) && !guards_tells_another(g->guards));
}

/* A child of the guard's own, and not of what the program has left behind. */
static bool has_child(const struct guard *g)
{
    return guard_stop_is_busy(&g->stop) || guard_record_is_busy(&g->record);
}

/* What programs have left behind is ended before the next generation, and where the step ends by a failure: it would
 * hold the step up, and without this process Slurm may not find it (proctrack/linuxproc). What ended well, or has
 * saved, may leave something that is still to be done. */
static bool clears_up(const struct guard *g)
{
    bool is_end = g->f.ends_step || g->said.kind == DEATH_SRUN;
    return g->said.next || (is_end && g->said.kind != DEATH_NONE && g->said.kind != DEATH_STOPPED);
}

/* What the program says: rank 0's card, for the others, or why it fails. */
static void step_door(struct guard *g)
{
    const char *card = guard_door_step(g->door);
    if (card && g->guards)
        guards_tell_card(g->guards, card);
}

static void take_end(struct guard *g, int status)
{
    if (g->door)
        step_door(g); /* its last words */
    g->has_ended = true;
    g->status = status;
    guard_waits_drop(&g->waiting);
    bool is_asked = g->is_asked || g->end_at;
    bool has_saved = (g->f.saves || g->f.stop.signal) && WIFEXITED(status) && WEXITSTATUS(status) == g->f.stop_code;
    if (guard_is_by_stop(g) || (death_is_failure(status) && !has_saved && !is_asked))
        guard_report(g);
    else if (g->guards)
        guards_finish(g->guards, has_saved);
    if (status == 0 && !is_asked)
        guard_suspect(g, DEATH_LEFT, 0);
    else if (death_asked_by(status) && !is_asked) /* by somebody who meant this program alone */
        guard_suspect(g, DEATH_HALTED, death_asked_by(status));
}

static void take_halt(struct guard *g, int signo)
{
    if (guard_halt_take(&g->halt, signo))
        guard_suspect(g, DEATH_NONE, 0);
}

/* Slurm has suspended the step, and its SIGCONT is yet to be read: until then time that has passed does not count. */
static bool is_waking(void)
{
    sigset_t s;
    return sigpending(&s) == 0 && sigismember(&s, SIGCONT) == 1;
}

static void step_halt(struct guard *g)
{
    if (g->has_ended || is_waking() || !guard_halt_step(&g->halt))
        return;
    guard_suspect(g, DEATH_HALTED, g->halt.signo);
    process_say("ddp: warning: rank %d (%s) has been stopped by signal %d (%s): the others may wait for it",
                g->seat.rank, g->f.name, g->halt.signo, strsignal(g->halt.signo));
}

/* Where it has made its parent its tracer, that is undone. */
static void take_stop(struct guard *g, pid_t pid, int signo)
{
    if (ptrace(PTRACE_DETACH, pid, NULL, signo == SIGTRAP ? 0 : signo) < 0 && pid == g->program)
        take_halt(g, signo);
}

void guard_reap(struct guard *g)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0)
        if (WIFSTOPPED(status))
            take_stop(g, pid, WSTOPSIG(status));
        else if (pid == g->program && WIFCONTINUED(status))
            take_halt(g, 0);
        else if (pid == g->program)
            take_end(g, status);
    if (!g->said.next || !g->has_ended || has_child(g))
        return;
    if (g->said.kind != DEATH_STOPPED || !g->term_at) /* they, too, may be saving */
        process_signal_below(g->kill_at ? SIGTERM : SIGKILL); /* what the program has left behind */
    if (pid < 0) /* no child is left */
        guards_gone(g->guards);
}

/* Without a farewell: the guards of other nodes find that this one has gone, and say it. */
static _Noreturn void go_with_the_node(void)
{
    process_signal_below(SIGKILL); /* nobody clears up behind it */
    _exit(1);
}

/* slurmstepd was killed: nobody would end the program, nor hear what it says. A root would tell the user in vain, and
 * goes; so do all guards of a node that others can go on without. */
static void lose_stepd(struct guard *g)
{
    if (g->guards && g->f.n_nodes > 1 && (g->f.is_elastic || guards_is_alone(g->guards)))
        go_with_the_node();
    if (!g->has_ended)
        process_signal_tree(g->program, SIGKILL); /* nobody clears up behind it */
    struct death d = {.kind = DEATH_GONE, .rank = g->waits ? g->f.rank : g->seat.rank, .at = g->f.node};
    snprintf(d.node, sizeof d.node, "%s", g->f.name);
    close(g->stepd);
    g->stepd = -1;
    if (g->guards)
        guards_report(g->guards, &d);
}

/* What a program of libddp says, too; it may end at once. */
static void tell_program(const struct guard *g, const struct death *d)
{
    char text[NOTICE_TEXT_MAX + 1];
    guard_door_tell_death(g->door, d->rank, death_say(d, text, sizeof text));
}

/* The verdict is known: this guard says it if it is its own, and gives a program that goes on some time to end. */
static void take_verdict(struct guard *g, const struct death *d, bool is_ours)
{
    bool is_srun_since = d->kind == DEATH_SRUN && g->said.kind != DEATH_SRUN;
    bool is_known = g->said.kind != DEATH_NONE && g->said.next == d->next && !is_srun_since;
    if (is_ours && !(is_known && g->has_said))
        guard_say_death(g, d);
    g->has_said = is_ours;
    if (is_known)
        return;
    bool is_same = g->said.next && !d->next && g->said.kind == d->kind && g->said.rank == d->rank; /* none follows */
    g->said = *d;
    g->verdict_until = 0;
    if (guard_keeps_time(g) && d->kind != DEATH_STOPPED && !is_same)
        guard_record_failure(&g->record, d);
    if (!g->f.ends_step && !d->next && d->kind != DEATH_SRUN)
        return;
    if (g->door)
        tell_program(g, d);
    bool is_stop = d->kind == DEATH_STOPPED, is_again = d->next || g->f.is_elastic; /* elsewhere, perhaps */
    bool is_lost = g->f.is_elastic && death_is_nodes(d);
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
                                         : "not all programs will be stopped together";
    process_say("ddp: warning: %d of %d guards cannot be reached (between nodes they need the ports from port_min to "
                "port_max, and the same slurm-ddp: ddp check says which node has another): %s",
                guards_missing(g->guards), g->f.size, what);
}

/* A node is lost, or has not come, and srun would wait for it. */
static bool has_lost(const struct guard *g)
{
    enum death_kind kind = g->said.kind;
    bool is_nodes = kind == DEATH_GONE || kind == DEATH_SILENT || kind == DEATH_DEAF || kind == DEATH_MISSING;
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
    if (!g->stop.is_released && g->f.is_elastic && g->srun && lifeline_release(g->srun, g->f.token))
        g->stop.is_released = true;
    guard_stop_release(&g->stop);
    return guard_stop_is_busy(&g->stop);
}

static const char *end_of(const struct guard *g)
{
    bool is_stopping = g->guards && (guards_is_stopping(g->guards) || g->end_at);
    if (g->said.kind == DEATH_STOPPED || (g->said.kind == DEATH_NONE && is_stopping))
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

/* Ends this process if it is time. */
static void look(struct guard *g)
{
    if (g->guards && guards_is_called(g->guards))
        answer(g);
    bool is_ours = false, is_late = g->verdict_until && deadline_left_ns(g->verdict_until) == 0;
    const struct death *d = g->guards ? guards_verdict(g->guards, &is_ours) : NULL;
    if (d)
        take_verdict(g, d, is_ours);
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
        if (g->guards)
            guards_leave(g->guards);
        process_end_as(g->status);
    }
}

/* ---- beside the program ---- */

/* Once; what Slurm repeats while a program saves is kept from it. */
void guard_give_stop(struct guard *g)
{
    if (!g->f.stop.signal || g->is_stopped)
        return;
    g->is_stopped = true;
    if (!g->has_ended)
        kill(g->program, g->f.stop.signal);
    if (guard_keeps_time(g)) /* for all */
        process_say("ddp: stop: all ranks get %s, to save and end", stop_key_name(g->f.stop.signal));
    if (guard_keeps_time(g))
        guard_record_stop(&g->record);
}

/* To all programs, this one first. */
static void stop_all(struct guard *g, bool is_ending)
{
    if (g->guards)
        guards_stop(g->guards, is_ending);
    guard_give_stop(g);
}

/* srun has it sent when it sees that a guard was killed: whoever had gone before is a death still. */
static void take_end_signal(struct guard *g, bool is_stop)
{
    if (g->guards)
        guards_step(g->guards);
    g->is_asked = true;
    if (g->guards && is_stop)
        guards_stop(g->guards, true);
    else if (g->guards)
        guards_expect_end(g->guards);
}

/* systemd's SIGTERM, as the node goes down. In a PID namespace of the job's (namespace/linux) whoever is outside is
 * process 0, so that a kill of root's from there looks the same; slurmstepd, from which Slurm's signals come, is
 * inside. */
static bool is_of_shutdown(const struct signalfd_siginfo *s)
{
    return s->ssi_signo == SIGTERM && (s->ssi_pid == 1 || (s->ssi_pid == 0 && s->ssi_uid == 0));
}

/* To the program. Programs of libddp, which a guard does not know from others, stop by SIGUSR1 or SIGUSR2: one that
 * comes when this generation is at its end is for the next, which has no handler yet, and so ends the step. */
static void pass_on(struct guard *g, int signo, bool is_own)
{
    if (g->f.restarts > 0 && !is_own && (signo == SIGUSR1 || signo == SIGUSR2)) {
        g->sent = signo;
        guard_reap(g); /* of those that wait, the lowest number is first: SIGUSR1 may have come behind the end */
        if (g->said.next || (g->has_ended && g->verdict_until))
            g->missed = signo;
    }
    if (!g->has_ended)
        kill(g->program, signo); /* not reaped, so the number is still its own */
    if (signo == SIGCONT) /* before its SIGCHLD: a suspension may have been as long as a halt that is told */
        take_halt(g, 0);
}

/* Slurm's SIGTERM, where it is a stop, unless the step ends by a death: then it is srun's, who has seen that, too. */
static void step_end(struct guard *g)
{
    bool is_failure = g->f.heed_s > 0 && g->guards && guards_has_failed(g->guards) && !guards_is_stopping(g->guards);
    if (!g->end_at || (!is_failure && deadline_left_ns(g->end_at) > 0))
        return;
    g->end_at = 0;
    take_end_signal(g, g->f.saves && !is_failure);
    if (is_failure)
        pass_on(g, SIGTERM, false);
    else
        stop_all(g, false);
}

/* Slurm suspends the step, and wakes it: programs could not save meanwhile. Those of a lost node have no more time:
 * others are about to have their ranks. */
static void take_rest(struct guard *g, int signo)
{
    uint64_t now = clock_ns(), ns = g->rests_at ? now - g->rests_at : 0;
    bool is_lost = g->f.is_elastic && death_is_nodes(&g->said);
    if (signo == SIGTSTP && g->guards)
        guards_expect_rest(g->guards);
    else if (g->rests_at && g->guards)
        guards_expect_wake(g->guards);
    g->rests_at = signo == SIGTSTP ? now : 0;
    if (signo == SIGTSTP || is_lost)
        return;
    g->term_at += g->term_at ? ns : 0;
    g->kill_at += g->kill_at ? ns : 0;
}

static void take_signal(struct guard *g)
{
    struct signalfd_siginfo s;
    if (read(g->signals, &s, sizeof s) != sizeof s)
        return;
    if (s.ssi_signo == SIGCHLD) {
        guard_reap(g);
        return;
    }
    bool is_programs = g->program && (pid_t)s.ssi_pid == g->program; /* "kill 0" */
    if (is_programs || (pid_t)s.ssi_pid == getpid()) /* SIGPIPE of our own line */
        return;
    bool is_own = s.ssi_pid && getpgid((pid_t)s.ssi_pid) == getpgrp(); /* of a task here: "kill 0" in a script */
    if (!is_own && (s.ssi_signo == SIGTSTP || s.ssi_signo == SIGCONT))
        take_rest(g, (int)s.ssi_signo);
    if (is_of_shutdown(&s) && g->f.is_elastic && !g->f.saves && g->guards && guards_has_others(g->guards))
        go_with_the_node();
    bool is_end = !is_own && (s.ssi_signo == SIGTERM || s.ssi_signo == SIGINT || s.ssi_signo == SIGHUP);
    bool is_term = is_end && s.ssi_signo == SIGTERM, is_stop = !is_own && (int)s.ssi_signo == g->f.stop.signal;
    if (is_term && g->f.stop.signal) {
        g->end_at = g->end_at ? g->end_at : deadline_in(g->f.heed_s);
        step_end(g);
        return;
    }
    if (is_end && !is_stop)
        take_end_signal(g, is_term && g->f.saves);
    if (is_stop)
        stop_all(g, false);
    else
        pass_on(g, (int)s.ssi_signo, is_own);
}

/* A child of the guard's own would get the signals for what the program has left behind. */
static bool is_holding(const struct guard *g)
{
    return g->has_ended && has_child(g);
}

/* Slurm's SIGTERM has gone past the guard to all that the program has started: it may be saving. One that comes to the
 * guard goes to the program alone. */
static bool is_told(const struct guard *g, int signo)
{
    return signo == SIGTERM && g->has_ended && !g->is_asked && !g->said.next && death_is_by(g->status, SIGTERM);
}

static void end_program(struct guard *g, uint64_t *when, int signo)
{
    if (!*when || deadline_left_ns(*when) > 0 || is_holding(g) || is_waking())
        return;
    *when = 0;
    if (clears_up(g) && !has_child(g) && !is_told(g, signo))
        process_signal_below(signo); /* a shell does not pass it on */
    else if (!g->has_ended)
        process_signal_tree(g->program, signo);
}

static void step_stop(struct guard *g)
{
    step_end(g);
    if (g->guards && guards_is_stopping(g->guards))
        guard_give_stop(g);
    bool is_due = (guard_keeps_time(g) || guard_stop_is_busy(&g->stop)) && guard_stop_step(&g->stop);
    if (is_due && guard_keeps_time(g))
        stop_all(g, false);
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
                             is_held ? 0 : g->kill_at, g->end_at,
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
            lose_stepd(g);
        if (p[0].revents)
            take_signal(g);
        if (p[3].revents)
            step_door(g);
        step_record(g);
        guard_srun_step(g);
        step_halt(g);
        if (g->guards)
            guards_step(g->guards);
        if (g->guards && guards_is_broken(g->guards))
            go_with_the_node();
        guard_activity_step(g); /* behind it: what it asks */
        if (g->door && g->guards)
            guard_door_tell(g->door, guards_card(g->guards));
        end_program(g, &g->term_at, SIGTERM);
        end_program(g, &g->kill_at, SIGKILL);
    }
}
