#include "config.h"
#include "spank/watchdog.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"

#define KILL_S 1.0 /* from the word to the kill */

/* What the handler reads: complete before there is a timer. */
static char word[256];
static size_t word_n;

static void bark(int signal)
{
    (void)signal;
    (void)!write(STDERR_FILENO, word, word_n);
    _exit(1);
}

static int start_timer(timer_t *ret, int signal, double seconds)
{
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
    uint64_t ns = (uint64_t)(seconds * (double)NS_PER_S);
    struct itimerspec in = {.it_value = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)}};
    if (timer_create(CLOCK_MONOTONIC, &e, ret) < 0)
        return -1;
    if (timer_settime(*ret, 0, &in, NULL) == 0)
        return 0;
    timer_delete(*ret);
    return -1;
}

static int start_timers(struct watchdog *w, double seconds)
{
    if (start_timer(&w->word, SIGALRM, seconds) < 0)
        return -1;
    if (start_timer(&w->kill, SIGKILL, seconds + KILL_S) == 0)
        return 0;
    timer_delete(w->word);
    return -1;
}

static void restore(const struct watchdog *w)
{
    sigaction(SIGALRM, &w->was_action, NULL);
    pthread_sigmask(SIG_SETMASK, &w->was_mask, NULL);
}

int watchdog_start(struct watchdog *w, double seconds, const char *line, ddp_error_t *errp)
{
    struct sigaction action = {.sa_handler = bark};
    sigset_t alarm;
    snprintf(word, sizeof word, "%s", line);
    word_n = strlen(word);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigaction(SIGALRM, &action, &w->was_action);
    pthread_sigmask(SIG_UNBLOCK, &alarm, &w->was_mask);
    if (start_timers(w, seconds) == 0)
        return 0;
    restore(w);
    return error_errno(errp, "no timer for what comes before the program: raise the limit of pending signals "
                       "(ulimit -i)");
}

void watchdog_stop(struct watchdog *w)
{
    timer_delete(w->word);
    timer_delete(w->kill);
    restore(w);
}
