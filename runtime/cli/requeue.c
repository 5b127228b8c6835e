/* requeue.c - `ddp requeue`: what a batch script runs after srun, where tasks cannot requeue their job themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/num.h"
#include "runtime/cli/cli.h"
#include "runtime/ddp.h"
#include "runtime/sched/requeue.h"

static const char help_text[] =
    "usage: ddp requeue [--limit N] [--exclude NODES] CODE\n"
    "\n"
    "For batch scripts: CODE is the exit code of the srun before (\"srun ...; ddp requeue $?\"). With 75, which says\n"
    "that training was asked to stop and has saved a checkpoint, Slurm puts this batch job (of an array this task\n"
    "alone) back into the queue. With any other code nothing is done.\n"
    "\n"
    "  --limit N        not after N restarts (default: DDP_REQUEUE_LIMIT, else 100)\n"
    "  --exclude NODES  not on these nodes, as in n3,n[7-9]\n"
    "\n"
    "--ddp=requeue=auto does without, where tasks have scontrol and may talk to the controller. The exit code is CODE;\n"
    "0 where the job is requeued; 2 for wrong usage.\n";

static int bad_usage(const char *what, const char *value)
{
    fprintf(stderr, "ddp requeue: %s%s: see \"ddp requeue --help\"\n", what, value);
    return CLI_USAGE;
}

static int requeue(int code, int limit, const char *exclude)
{
    char *note;
    if (code != DDP_EXIT_STOPPED)
        return code;
    bool is_done = requeue_job(limit, exclude, REQUEUE_PATIENCE_S, &note);
    fprintf(stderr, "ddp requeue: %s\n", note ? note : "no memory");
    free(note);
    return is_done ? 0 : code;
}

int cli_requeue(int argc, char **argv)
{
    const char *exclude = NULL, *limit_text = getenv("DDP_REQUEUE_LIMIT");
    int i, code, limit = REQUEUE_LIMIT;
    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(help_text, stdout);
            return 0;
        }
        if (!strcmp(argv[i], "--limit") && i + 1 < argc)
            limit_text = argv[++i];
        else if (!strcmp(argv[i], "--exclude") && i + 1 < argc)
            exclude = argv[++i];
        else
            return bad_usage("unknown option, or one without its value: ", argv[i]);
    }
    if (limit_text && num_int(limit_text, 0, 1000000, &limit) < 0)
        return bad_usage("the limit is a number, 0..1000000, not ", limit_text);
    if (i != argc - 1 || num_int(argv[i], 0, 255, &code) < 0)
        return bad_usage("give the exit code of srun, 0..255: ddp requeue $?", "");
    return requeue(code, limit, exclude);
}
