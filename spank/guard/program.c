/* program.c - the program: what it says, when it is halted, when it has ended; and the end of slurmstepd, without which
 * nobody would end it. */
#include "config.h"
#include "spank/guard/impl.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "spank/guard/process.h"

#define ALONE_TOLD_S 1.0 /* for a verdict to come from the root */

bool guard_has_child(const struct guard *g)
{
    return guard_stop_is_busy(&g->stop) || guard_record_is_busy(&g->record);
}

void guard_step_door(struct guard *g)
{
    const char *card = guard_door_step(g->door);
    if (card && g->guards)
        guards_tell_card(g->guards, card);
}

static void take_end(struct guard *g, int status)
{
    if (g->door)
        guard_step_door(g); /* its last words */
    g->has_ended = true;
    g->status = status;
    guard_waits_drop(&g->waiting);
    bool is_asked = g->is_asked || g->end_at;
    bool has_saved = (g->f.saves || g->f.stop.signal) && WIFEXITED(status) && WEXITSTATUS(status) == g->f.stop_code;
    bool has_others = g->guards && g->f.size > 1 && !guards_is_stopping(g->guards) && g->said.kind == DEATH_NONE;
    if (guard_is_by_stop(g) || (death_is_failure(status, g->f.stop_code) && !is_asked))
        guard_report(g);
    else if (death_asked_by(status) && !is_asked && !has_saved && has_others)
        g->alone_until = deadline_in(GUARDS_ALONE_S + ALONE_TOLD_S);
    else if (g->guards)
        guards_finish(g->guards, has_saved);
    if (status == 0 && !is_asked)
        guard_suspect(g, DEATH_LEFT, 0);
    else if (death_asked_by(status) && !is_asked && !guard_is_by_stop(g)) /* by somebody who meant this program alone */
        guard_suspect(g, DEATH_HALTED, status);
}

void guard_take_halt(struct guard *g, int signo)
{
    if (guard_halt_take(&g->halt, signo))
        guard_suspect(g, DEATH_NONE, 0);
}

bool guard_is_waking(void)
{
    sigset_t s;
    return sigpending(&s) == 0 && sigismember(&s, SIGCONT) == 1;
}

void guard_step_halt(struct guard *g)
{
    if (g->has_ended || guard_is_waking() || !guard_halt_step(&g->halt))
        return;
    guard_suspect(g, DEATH_HALTED, g->halt.signo);
    if (g->said.kind != DEATH_NONE && (g->f.ends_step || g->said.next)) /* the cause is said */
        return;
    process_say("ddp: warning: rank %d (%s) has been stopped by signal %d (%s): the others may wait for it",
                g->seat.rank, g->f.name, g->halt.signo, strsignal(g->halt.signo));
}

/* Where it has made its parent its tracer, that is undone. */
static void take_stop(struct guard *g, pid_t pid, int signo)
{
    if (ptrace(PTRACE_DETACH, pid, NULL, signo == SIGTRAP ? 0 : signo) < 0 && pid == g->program)
        guard_take_halt(g, signo);
}

void guard_reap(struct guard *g)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0)
        if (WIFSTOPPED(status))
            take_stop(g, pid, WSTOPSIG(status));
        else if (pid == g->program && WIFCONTINUED(status))
            guard_take_halt(g, 0);
        else if (pid == g->program)
            take_end(g, status);
    if (!g->said.next || !g->has_ended || guard_has_child(g))
        return;
    if (g->said.kind != DEATH_STOPPED || !g->term_at) /* they, too, may be saving */
        process_signal_below(g->kill_at ? SIGTERM : SIGKILL); /* what the program has left behind */
    if (pid < 0) /* no child is left */
        guards_gone(g->guards);
}

_Noreturn void guard_go_with_the_node(void)
{
    process_signal_below(SIGKILL); /* nobody clears up behind it */
    _exit(1);
}

void guard_lose_stepd(struct guard *g)
{
    if (g->guards && g->f.n_nodes > 1 && (g->f.is_elastic || guards_is_alone(g->guards)))
        guard_go_with_the_node();
    if (!g->has_ended)
        process_signal_tree(g->program, SIGKILL); /* nobody clears up behind it */
    struct death d = {.kind = DEATH_GONE, .rank = g->waits ? g->f.rank : g->seat.rank, .at = g->f.node};
    snprintf(d.node, sizeof d.node, "%s", g->f.name);
    close(g->stepd);
    g->stepd = -1;
    if (g->guards)
        guards_report(g->guards, &d);
}
