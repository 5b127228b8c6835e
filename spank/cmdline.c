#include "spank/cmdline.h"

#include <stdbool.h>
#include <string.h>

/* srun's options that never take the next argument as their value (srun(1); optional values need "="). */
static const char *const long_flags[] = {
    "contiguous",  "disable-status",  "exact",       "exclusive",     "help",          "hold",         "immediate",
    "interactive", "kill-on-bad-exit", "label",      "multi-prog",    "no-allocate",   "no-kill",      "nice",
    "overcommit",  "overlap",         "oversubscribe", "preserve-env", "propagate",    "pty",          "quiet",
    "quit-on-interrupt", "reboot",    "resv-ports",  "share",         "spread-job",    "unbuffered",   "usage",
    "use-min-nodes", "verbose",       "version",     "wait-all-nodes", "whole",
};
static const char short_flags[] = "EHIKOQXVZhklsuv";

static bool is_long_flag(const char *name)
{
    for (size_t i = 0; i < sizeof long_flags / sizeof *long_flags; i++)
        if (!strcmp(name, long_flags[i]))
            return true;
    return false;
}

/* "-n4" holds its value, "-n" wants one, "-lO" are flags; "-lOn" wants one. */
static bool short_wants_value(const char *arg)
{
    for (const char *p = arg + 1; *p; p++)
        if (!strchr(short_flags, *p))
            return !p[1];
    return false;
}

static const char *next_arg(const char *arg, const char *end)
{
    const char *next = arg + strlen(arg) + 1;
    return next < end ? next : NULL;
}

/* srun has no other option that begins with --dd. */
static bool is_ddp(const char *arg)
{
    size_t n = strcspn(arg, "=");
    return (n == 4 || n == 5) && !strncmp(arg, "--ddp", n);
}

const char *cmdline_ddp(const char *args, size_t n)
{
    const char *found = NULL, *end = args + n, *value;
    bool is_command = false; /* past this component's command: wait for the ":" */
    if (n == 0 || end[-1])
        return NULL;
    for (const char *arg = next_arg(args, end); arg; arg = next_arg(arg, end)) {
        if (!strcmp(arg, ":")) {
            is_command = false;
        } else if (is_command) {
            continue;
        } else if (arg[0] != '-' || !arg[1] || !strcmp(arg, "--")) {
            is_command = true;
        } else if (arg[1] == '-') {
            if ((value = strchr(arg, '='))) {
                found = is_ddp(arg) ? value + 1 : found;
            } else if ((value = next_arg(arg, end)) && is_ddp(arg)) {
                found = arg = value;
            } else if (value && value[0] != '-' && !is_long_flag(arg + 2)) {
                arg = value;
            }
        } else if (short_wants_value(arg) && (value = next_arg(arg, end)) && value[0] != '-') {
            arg = value;
        }
    }
    return found;
}
