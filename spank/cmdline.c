#include "spank/cmdline.h"

#include <stdbool.h>
#include <string.h>

/* srun's options that never take the next argument as their value (srun(1); optional values need "="). */
static const char *const long_flags[] = {
    "bcast", "compress", "consolidate-segments", "contiguous", "debugger-test", "disable-status", "exact",
    "exclusive", "external-launcher", "get-user-env", "help", "hold", "immediate", "interactive", "kill-on-bad-exit",
    "label", "multi-prog", "nice", "no-allocate", "no-kill", "oom-kill-step", "overcommit", "overlap",
    "oversubscribe", "parsable", "preserve-env", "propagate", "pty", "quiet", "quit-on-interrupt", "reboot",
    "send-libs", "share", "spread-job", "spread-segments", "stepmgr", "test-only", "unbuffered", "usage",
    "use-min-nodes", "verbose", "version", "wait-all-nodes", "wait-for-children", "whole", "x11",
};
static const char short_flags[] = "EHIKOQXVZhklsuv";

static bool is_long_flag(const char *name)
{
    for (size_t i = 0; i < sizeof long_flags / sizeof *long_flags; i++)
        if (!strcmp(name, long_flags[i]))
            return true;
    return false;
}

/* What follows the K of "-K0", "-lK1" or "-K"; NULL: there is none. */
static const char *find_kill(const char *arg)
{
    for (const char *p = arg + 1; *p && *p != 'I' && strchr(short_flags, *p); p++)
        if (*p == 'K')
            return p + 1;
    return NULL;
}

/* "-n4" holds its value, "-n" wants one, "-lO" are flags; "-lOn" wants one; "-K1" and "-I5" hold theirs or have
 * none. */
static bool short_wants_value(const char *arg)
{
    for (const char *p = arg + 1; *p && *p != 'I' && *p != 'K'; p++)
        if (!strchr(short_flags, *p))
            return !p[1];
    return false;
}

static const char *next_arg(const char *arg, const char *end)
{
    const char *next = arg + strlen(arg) + 1;
    return next < end ? next : NULL;
}

/* What is looked for. No other option of srun begins like the first `least` letters of the name. */
static const struct wanted {
    const char *name;
    size_t least, at; /* where in struct cmdline */
    bool is_optional; /* its value needs "=" */
} wanted[] = {
    {"ddp", 2, offsetof(struct cmdline, ddp), false},
    {"resv-ports", 4, offsetof(struct cmdline, resv_ports), true},
    {"gpus-per-task", 10, offsetof(struct cmdline, gpus_per_task), false},
    {"gpu-bind", 5, offsetof(struct cmdline, gpu_bind), false},
    {"ntasks-per-node", 12, offsetof(struct cmdline, ntasks_per_node), false},
    {"ntasks-per-gpu", 12, offsetof(struct cmdline, ntasks_per_gpu), false},
    {"tres-per-task", 6, offsetof(struct cmdline, tres_per_task), false},
    {"tres-bind", 6, offsetof(struct cmdline, tres_bind), false},
    {"mpi", 2, offsetof(struct cmdline, mpi), false},
    {"async", 2, offsetof(struct cmdline, async), true},
    {"cpu-bind", 5, offsetof(struct cmdline, cpu_bind), false},
    {"cpu_bind", 4, offsetof(struct cmdline, cpu_bind), false},
    {"kill-on-bad-exit", 1, offsetof(struct cmdline, kill_on_bad_exit), true},
};

/* arg is "--name", with or without "=VALUE", or begins like it. */
static const struct wanted *find_wanted(const char *arg)
{
    size_t n = strcspn(arg + 2, "=");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (n >= wanted[i].least && n <= strlen(wanted[i].name) && !strncmp(arg + 2, wanted[i].name, n))
            return &wanted[i];
    return NULL;
}

/* arg begins with "--". Returns it, or the argument after it where that is its value. */
static const char *read_long(const char *arg, const char *end, struct cmdline *c)
{
    const char *value = strchr(arg, '='), *next = next_arg(arg, end);
    const struct wanted *w = find_wanted(arg);
    if (!w)
        return !value && next && next[0] != '-' && !is_long_flag(arg + 2) ? next : arg;
    const char *found = value ? value + 1 : w->is_optional ? "" : next;
    if (found)
        memcpy((char *)c + w->at, &found, sizeof found);
    return found == next && found ? next : arg;
}

struct cmdline cmdline_read(const char *args, size_t n)
{
    struct cmdline c = {.ddp = NULL};
    const char *end = args + n, *value;
    bool is_command = false; /* past this component's command: wait for the ":" */
    if (n == 0 || end[-1])
        return c;
    for (const char *arg = next_arg(args, end); arg; arg = next_arg(arg, end)) {
        if (!strcmp(arg, ":"))
            is_command = false;
        else if (is_command)
            continue;
        else if (arg[0] != '-' || !arg[1] || !strcmp(arg, "--")) {
            const char *command = strcmp(arg, "--") ? arg : next_arg(arg, end);
            c.command = c.command ? c.command : command;
            is_command = true;
        }
        else if (arg[1] == '-')
            arg = read_long(arg, end, &c);
        else if (find_kill(arg))
            c.kill_on_bad_exit = find_kill(arg);
        else if (short_wants_value(arg) && (value = next_arg(arg, end)) && value[0] != '-')
            arg = value;
    }
    return c;
}
