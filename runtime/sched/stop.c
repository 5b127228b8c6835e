#include "runtime/sched/stop.h"

#include <errno.h>
#include <string.h>

static const struct {
    const char *name;
    int signum;
} signals[STOP_N_SIGNALS] = {
    [STOP_TERM] = {"TERM", SIGTERM},
    [STOP_USR1] = {"USR1", SIGUSR1},
    [STOP_USR2] = {"USR2", SIGUSR2},
    [STOP_INT] = {"INT", SIGINT},
};

static volatile sig_atomic_t first; /* number of the first signal; 0: none yet */
static volatile sig_atomic_t is_interrupted;

static void on_signal(int signum)
{
    if (!first)
        first = signum;
    if (signum != SIGINT)
        return;
    if (is_interrupted) { /* blocked in here: it acts when this returns */
        int saved = errno;
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
        errno = saved;
    }
    is_interrupted = 1;
}

static int find(const char *name, size_t len)
{
    for (int i = 0; i < STOP_N_SIGNALS; i++)
        if (strlen(signals[i].name) == len && !memcmp(signals[i].name, name, len))
            return i;
    return -1;
}

int stop_parse(const char *text, unsigned *ret, ddp_error_t *errp)
{
    unsigned set = 0;
    if (!strcmp(text, "none")) {
        *ret = 0;
        return 0;
    }
    for (const char *p = text;; p++) {
        size_t len = strcspn(p, ",");
        int i = find(p, len);
        if (i < 0)
            return error_set(errp, DDP_E_USAGE, EINVAL, "stop-signals=%.64s: \"%.*s\" is no signal that can stop a "
                             "job: use none, or some of TERM, USR1, USR2, INT with commas between them", text,
                             (int)(len < 32 ? len : 32), p);
        set |= 1u << i;
        p += len;
        if (!*p)
            break;
    }
    *ret = set;
    return 0;
}

/* Is this what the signal does now? */
static bool acts_as(int signum, void (*handler)(int))
{
    struct sigaction sa;
    return sigaction(signum, NULL, &sa) == 0 && !(sa.sa_flags & SA_SIGINFO) && sa.sa_handler == handler;
}

void stop_catch(struct stop *s, unsigned set)
{
    if (s->caught)
        return;
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&sa.sa_mask);
    first = is_interrupted = 0;
    for (int i = 0; i < STOP_N_SIGNALS; i++)
        if (set & 1u << i && acts_as(signals[i].signum, SIG_DFL) && sigaction(signals[i].signum, &sa, NULL) == 0)
            s->caught |= 1u << i;
}

void stop_release(struct stop *s)
{
    bool is_leaving = s->is_leaving || stop_wanted(s) >= 0;
    for (int i = 0; i < STOP_N_SIGNALS; i++)
        if (s->caught & 1u << i && acts_as(signals[i].signum, on_signal))
            signal(signals[i].signum, is_leaving && i != STOP_INT ? SIG_IGN : SIG_DFL);
    *s = (struct stop){0};
}

int stop_wanted(const struct stop *s)
{
    int signum = first;
    for (int i = 0; s->caught && i < STOP_N_SIGNALS; i++)
        if (signals[i].signum == signum)
            return i;
    return -1;
}

void stop_fill(const struct stop *s, bool is_late, double *tail)
{
    int own = stop_wanted(s);
    for (int i = 0; i < STOP_N; i++)
        tail[i] = i == own || (i == STOP_DEADLINE && is_late);
}

int stop_agreed(struct stop *s, const double *tail)
{
    for (int i = 0; i < STOP_N; i++)
        if (tail[i] > 0) {
            s->is_leaving = true;
            return i;
        }
    return -1;
}

int stop_signal(int reason)
{
    return reason >= 0 && reason < STOP_N_SIGNALS ? signals[reason].signum : 0;
}

const char *stop_signal_name(int signum)
{
    for (int i = 0; i < STOP_N_SIGNALS; i++)
        if (signals[i].signum == signum)
            return signals[i].name;
    return NULL;
}
