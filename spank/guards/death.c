#include "config.h" /* strsignal */
#include "spank/guards/death.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "runtime/base/bytes.h"
#include "runtime/base/plain.h"
#include "spank/keys/stop_key.h"

#define SHELL_SIGNAL 128
#define NAME_AT 36
#define TEXT_AT 100
_Static_assert(TEXT_AT + DEATH_TEXT_MAX + 1 == DEATH_BYTES, "a death as it is sent");

/* 0: none. */
static int signal_of(int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return WIFSIGNALED(status) ? WTERMSIG(status) : code > SHELL_SIGNAL ? code - SHELL_SIGNAL : 0;
}

bool death_is_by(int status, int signo)
{
    return signo > 0 && signal_of(status) == signo;
}

int death_asked_by(int status)
{
    int signo = signal_of(status);
    return signo == SIGTERM || signo == SIGINT || signo == SIGHUP ? signo : 0;
}

bool death_is_failure(int status, int saved_code)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (death_asked_by(status))
        return false;
    return WIFSIGNALED(status) || (code != 0 && code != saved_code);
}

bool death_is_nodes(const struct death *d)
{
    return d->kind == DEATH_GUARD || d->kind == DEATH_GONE || d->kind == DEATH_ABSENT || d->kind == DEATH_SILENT ||
           d->kind == DEATH_DEAF;
}

bool death_may_follow(const struct death *d)
{
    static const int own[] = {SIGKILL, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    if (d->kind == DEATH_TOLD)
        return true;
    if (d->kind != DEATH_ENDED)
        return false;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (death_is_by(d->how, own[i]))
            return false;
    return WIFEXITED(d->how) || WTERMSIG(d->how) == SIGABRT || WTERMSIG(d->how) == SIGPIPE;
}

void death_take_memory(struct death *d)
{
    if (d->kind != DEATH_ENDED)
        return;
    if (death_is_by(d->how, SIGKILL))
        d->kind = DEATH_MEMORY;
    else if (death_may_follow(d))
        d->kind = DEATH_SHORT;
}

static int weight(const struct death *d)
{
    return d->kind == DEATH_SHORT ? 2 : d->kind == DEATH_TOLD ? 1 : death_may_follow(d) ? 0 : 3;
}

bool death_is_nearer(const struct death *d, const struct death *than)
{
    if (d->rank == than->rank && (d->kind == DEATH_TOLD || than->kind == DEATH_TOLD))
        return d->kind != DEATH_TOLD;
    return weight(d) > weight(than);
}

static void say_how(const struct death *d, char *buf, size_t size)
{
    int signo = WIFSIGNALED(d->how) ? WTERMSIG(d->how) : 0;
    if (d->kind == DEATH_MEMORY)
        snprintf(buf, size, "was killed: its control group is out of memory (ask for more: --mem, --mem-per-cpu)");
    else if (signo)
        snprintf(buf, size, "was killed by signal %d (%s)%s", signo, strsignal(signo),
                 WCOREDUMP(d->how) ? " and left a core" : "");
    else
        snprintf(buf, size, "exited with code %d", WEXITSTATUS(d->how));
}

static const char *say_why(const struct death *d)
{
    return d->kind == DEATH_SHORT ? ": its control group is out of memory (ask for more: --mem, --mem-per-cpu), and "
                                    "another process of it had been killed" : "";
}

/* Only what has ended has been running for some time. */
static void say_halted(const struct death *d, char *buf, size_t size)
{
    int signo = signal_of(d->how);
    int n = snprintf(buf, size, "rank %d (%s) was %s by signal %d (%s)", d->rank, d->node,
                     death_asked_by(d->how) ? "ended" : "stopped", signo, strsignal(signo));
    if (death_asked_by(d->how) && n > 0 && (size_t)n < size)
        snprintf(buf + n, size - (size_t)n, " after %u s", d->after_s);
}

static void say_who(const struct death *d, char *buf, size_t size)
{
    char how[128];
    say_how(d, how, sizeof how);
    if (d->kind == DEATH_SILENT)
        snprintf(buf, size, "node %s (rank %d) has been silent for %d s%s%s: it is down, or the network to it", d->node,
                 d->rank, d->how, *d->text ? " to node " : "", d->text);
    else if (d->kind == DEATH_DEAF)
        snprintf(buf, size, "node %s (rank %d) has heard no other node for %d s: its network is down, or one way of "
                 "it, or all of theirs", d->node, d->rank, d->how);
    else if (d->kind == DEATH_GONE)
        snprintf(buf, size, "node %s (rank %d) has gone: a guard or slurmstepd there was killed (out of memory, "
                 "perhaps), or the node restarts", d->node, d->rank);
    else if (d->kind == DEATH_ABSENT)
        snprintf(buf, size, "node %s (rank %d) has not come: no task could start there, or it cannot be reached "
                 "(port_min to port_max) or does not have the same slurm-ddp (ddp check says which)", d->node, d->rank);
    else if (d->kind == DEATH_GUARD)
        snprintf(buf, size, "rank %d (%s) was killed together with its guard (out of memory, perhaps)", d->rank,
                 d->node);
    else if (d->kind == DEATH_SRUN)
        snprintf(buf, size, "srun has gone");
    else if (d->kind == DEATH_MISSING)
        snprintf(buf, size, "%d task%s not come%s%s: %s could not start, or nodes cannot reach each other (port_min "
                 "to port_max) or do not have the same slurm-ddp (ddp check says which)", d->how,
                 d->how == 1 ? " has" : "s have", !*d->node ? "" : d->how == 1 ? ", on " : ", one of them on ", d->node,
                 d->how == 1 ? "it" : "they");
    else if (d->kind == DEATH_STUCK)
        snprintf(buf, size, "no restart: a program on %s (rank %d, perhaps) does not end by SIGKILL: is a file system "
                 "or a driver stuck?", d->node, d->rank);
    else if (d->kind == DEATH_STOPPED)
        snprintf(buf, size, "rank %d (%s) was ended by %s, the stop's signal, which it did not catch, after %u s",
                 d->rank, d->node, stop_key_name(signal_of(d->how)), d->after_s);
    else if (d->kind == DEATH_TOLD)
        snprintf(buf, size, "%s", d->text);
    else if (d->kind == DEATH_LEFT)
        snprintf(buf, size, "rank %d (%s) ended with code 0 after %u s", d->rank, d->node, d->after_s);
    else if (d->kind == DEATH_HALTED)
        say_halted(d, buf, size);
    else if (d->kind == DEATH_BUSY)
        snprintf(buf, size, "rank %d (%s) had computed for %d s while all others waited", d->rank, d->node, d->how);
    else if (d->kind == DEATH_IDLE)
        snprintf(buf, size, "all ranks had waited for %d s%s%s", d->how, *d->text ? ": " : "", d->text);
    else
        snprintf(buf, size, "%s%srank %d (%s) %s after %u s%s", d->text, *d->text ? ", and then " : "", d->rank,
                 d->node, how, d->after_s, say_why(d));
}

const char *death_say(const struct death *d, char *buf, size_t size)
{
    say_who(d, buf, size);
    size_t used = strlen(buf);
    if (d->next && d->of && d->kind != DEATH_STOPPED)
        snprintf(buf + used, size - used, ": restart %d of %d", d->restart, d->of);
    else if (d->of)
        snprintf(buf + used, size - used, ", soon after its start, %d times in a row", d->of);
    return buf;
}

void death_pack(const struct death *d, unsigned char bytes[DEATH_BYTES])
{
    memset(bytes, 0, DEATH_BYTES);
    bytes_put32(bytes, (uint32_t)d->kind);
    bytes_put32(bytes + 4, (uint32_t)d->rank);
    bytes_put32(bytes + 8, (uint32_t)d->how);
    bytes_put32(bytes + 12, d->after_s);
    bytes_put32(bytes + 16, (uint32_t)d->next);
    bytes_put32(bytes + 20, (uint32_t)d->of);
    bytes_put32(bytes + 24, (uint32_t)d->at);
    bytes_put32(bytes + 28, d->is_certain);
    bytes_put32(bytes + 32, (uint32_t)d->restart);
    memcpy(bytes + NAME_AT, d->node, strnlen(d->node, TEXT_AT - NAME_AT - 1));
    memcpy(bytes + TEXT_AT, d->text, strnlen(d->text, DEATH_BYTES - TEXT_AT - 1));
}

void death_unpack(const unsigned char bytes[DEATH_BYTES], struct death *ret)
{
    *ret = (struct death){.kind = (enum death_kind)bytes_get32(bytes), .rank = (int)bytes_get32(bytes + 4),
                          .how = (int)bytes_get32(bytes + 8), .after_s = bytes_get32(bytes + 12),
                          .next = (int)bytes_get32(bytes + 16), .of = (int)bytes_get32(bytes + 20),
                          .at = (int)bytes_get32(bytes + 24), .is_certain = bytes_get32(bytes + 28) != 0,
                          .restart = (int)bytes_get32(bytes + 32)};
    memcpy(ret->node, bytes + NAME_AT, TEXT_AT - NAME_AT - 1);
    memcpy(ret->text, bytes + TEXT_AT, DEATH_BYTES - TEXT_AT - 1);
    plain_line(ret->node);
    plain_line(ret->text);
}
