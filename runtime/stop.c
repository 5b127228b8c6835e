#include "runtime/stop.h"

#include <stddef.h>

static volatile sig_atomic_t wanted;

static void on_signal(int signum)
{
    (void)signum;
    wanted = 1;
}

void stop_catch(struct stop *s)
{
    if (s->is_caught || sigaction(SIGTERM, NULL, &s->before) < 0 || s->before.sa_handler != SIG_DFL)
        return;
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&sa.sa_mask);
    wanted = 0;
    s->is_caught = sigaction(SIGTERM, &sa, NULL) == 0;
}

void stop_release(struct stop *s)
{
    if (s->is_caught)
        sigaction(SIGTERM, &s->before, NULL);
    s->is_caught = false;
}

bool stop_is_wanted(const struct stop *s)
{
    return s->is_caught && wanted;
}
