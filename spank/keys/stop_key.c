#include "spank/keys/stop_key.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "runtime/base/num.h"

static const struct {
    const char *name;
    int signal;
} signals[] = {
    {"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},   {"SIGQUIT", SIGQUIT}, {"SIGTERM", SIGTERM},
    {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGXCPU", SIGXCPU},
};
enum { N_SIGNALS = sizeof signals / sizeof *signals, PREFIX = sizeof "SIG" - 1 };

static int find(const char *text, size_t len)
{
    if (len > PREFIX && !strncmp(text, "SIG", PREFIX)) {
        text += PREFIX;
        len -= PREFIX;
    }
    for (int i = 0; i < N_SIGNALS; i++)
        if (strlen(signals[i].name + PREFIX) == len && !memcmp(signals[i].name + PREFIX, text, len))
            return signals[i].signal;
    return 0;
}

int stop_key_parse(const char *text, const char *source, struct stop_key *ret, ddp_error_t *errp)
{
    size_t len = strcspn(text, "@");
    struct stop_key k = {.signal = find(text, len)};
    bool is_none = !strcmp(text, "none");
    bool is_time = !text[len] || num_int(text + len + 1, 1, STOP_BEFORE_MAX_S, &k.before_s) == 0;
    if (!is_none && (!k.signal || !is_time))
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s: stop=%.32s: use none, or HUP, INT, QUIT, TERM, USR1, USR2 or "
                         "XCPU, and the seconds before the job's end, as in USR1@120 (1..%d)", source, text,
                         STOP_BEFORE_MAX_S);
    *ret = k;
    return 0;
}

const char *stop_key_name(int signal)
{
    for (int i = 0; i < N_SIGNALS; i++)
        if (signals[i].signal == signal)
            return signals[i].name;
    return "a signal";
}
