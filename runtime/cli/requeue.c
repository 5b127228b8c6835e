/* requeue.c - `ddp requeue`: what a batch script runs after srun, where tasks cannot requeue their job themselves. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/num.h"
#include "runtime/base/settings.h"
#include "runtime/cli/cli.h"
#include "runtime/ddp.h"
#include "runtime/sched/requeue.h"

enum { LIMIT, EXCLUDE, N_KNOBS };
static const struct knob knobs[N_KNOBS] = {
    [LIMIT] = {.name = "--limit", SETTING_REQUEUE_LIMIT},
    [EXCLUDE] = {.name = "--exclude", .type = KNOB_PATH, .value = "NODES",
                 .help = "nodes that it is not to run on again, as in n3,n[7-9]"},
};

static const char help_head[] =
    "usage: ddp requeue [--limit N] [--exclude NODES] CODE\n"
    "\n"
    "For batch scripts: CODE is the exit code of the srun before (\"srun ...; ddp requeue $?\"). With 75, which says\n"
    "that training was asked to stop and has saved a checkpoint, Slurm puts this batch job (of an array this task\n"
    "alone) back into the queue. With any other code nothing is done.\n"
    "\n";
static const char help_tail[] =
    "\n"
    "--ddp=requeue=auto does without, where tasks have scontrol and may talk to the controller. The exit code is "
    "CODE;\n"
    "0 where the job is requeued; 2 for wrong usage.\n";

static int help(void)
{
    fputs(help_head, stdout);
    knob_help(stdout, knobs, N_KNOBS);
    fputs(help_tail, stdout);
    return 0;
}

static int bad_usage(const char *why)
{
    fprintf(stderr, "ddp requeue: %s\n", why);
    return CLI_USAGE;
}

static void say(const char *line)
{
    fprintf(stderr, "ddp requeue: %s\n", line);
}

static int requeue(int code, int limit, const char *exclude)
{
    struct requeue_request r = {.limit = limit, .exclude = exclude, .patience_s = REQUEUE_PATIENCE_S,
                                .say = say, .command = "run the same srun again"};
    char *note;
    if (code != DDP_EXIT_STOPPED)
        return code;
    bool is_done = requeue_job(&r, &note);
    free(note);
    return is_done ? 0 : code;
}

int cli_requeue(int argc, char **argv)
{
    struct knob_value v[N_KNOBS];
    ddp_error_t e;
    int code, i = 0;
    int rc = knob_argv(knobs, N_KNOBS, "\"ddp requeue --help\"", argc, argv, v, &i, &e);
    if (rc > 0)
        return help();
    if (rc < 0)
        return bad_usage(e.text);
    if (i != argc - 1 || num_int(argv[i], 0, 255, &code) < 0)
        return bad_usage("give the exit code of srun, 0..255: ddp requeue $? (ddp requeue --help)");
    return requeue(code, (int)v[LIMIT].i, v[EXCLUDE].path);
}
