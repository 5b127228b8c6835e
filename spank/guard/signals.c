/* signals.c - what comes of each signal that the guard gets, and of the time of a stop. */
#include "config.h"
#include "spank/guard/impl.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "spank/guard/process.h"

bool guard_keeps_time(const struct guard *g)
{
    return !g->guards || (guards_is_alone(g->guards) && !guards_tells_another(g->guards));
}

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

void guard_stop_all(struct guard *g, bool is_ending)
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
        guard_take_halt(g, 0);
}

/* Slurm's SIGTERM, where it is a stop, unless the step ends by a death: then it is srun's, who has seen that, too. */
void guard_step_end(struct guard *g)
{
    bool is_failure = g->f.heed_s > 0 && g->guards && guards_has_failed(g->guards) && !guards_is_stopping(g->guards);
    if (!g->end_at || (!is_failure && deadline_left_ns(g->end_at) > 0))
        return;
    g->end_at = 0;
    take_end_signal(g, g->f.saves && !is_failure);
    if (is_failure)
        pass_on(g, SIGTERM, false);
    else
        guard_stop_all(g, false);
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

void guard_take_signal(struct guard *g)
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
        guard_go_with_the_node();
    bool is_end = !is_own && (s.ssi_signo == SIGTERM || s.ssi_signo == SIGINT || s.ssi_signo == SIGHUP);
    bool is_term = is_end && s.ssi_signo == SIGTERM, is_stop = !is_own && (int)s.ssi_signo == g->f.stop.signal;
    if (is_term && g->f.stop.signal) {
        g->end_at = g->end_at ? g->end_at : deadline_in(g->f.heed_s);
        guard_step_end(g);
        return;
    }
    if (is_end && !is_stop)
        take_end_signal(g, is_term && g->f.saves);
    if (is_stop)
        guard_stop_all(g, false);
    else
        pass_on(g, (int)s.ssi_signo, is_own);
}
