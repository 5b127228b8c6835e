/* run.c - `ddp run`: its options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/knob.h"
#include "runtime/base/num.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/run/job.h"

enum { RANKS, LAYOUT, BOOT, TIMEOUT, N_KNOBS };
static const struct knob knobs[N_KNOBS] = {
    [RANKS] = {.name = "-n", KNOB_FIELD(struct job, n_ranks), .type = KNOB_INT, .min = 1, .max = JOB_RANKS_MAX,
               .help = "how many ranks"},
    [LAYOUT] = {.name = "--layout", .type = KNOB_PATH, .value = "A,B,...",
                .help = "for trying out and tests: A ranks on a first virtual node, B on a second, and so on; the "
                        "ranks then talk as if on several nodes (-n may be left out)"},
    [BOOT] = {.name = "--boot", KNOB_FIELD(struct job, boot_addr), .type = KNOB_PATH, .min = 1, .value = "ADDRESS",
              .help = "where the ranks find each other, instead of a socket in a folder that ddp run makes and "
                      "removes: unix:/PATH, unix:@NAME or tcp:HOST:PORT"},
    [TIMEOUT] = {.name = "--timeout", KNOB_FIELD(struct job, timeout_s), .type = KNOB_DOUBLE, .min = 0.001, .max = 1e8,
                 .value = "S", .help = "end the job after S seconds, with exit code 124"},
};

static const char help_head[] =
    "usage: ddp run -n N [--layout A,B,...] [--boot ADDRESS] [--timeout S] [--] PROGRAM [ARGUMENTS...]\n"
    "\n"
    "Starts PROGRAM N times on this machine, wired up as one data-parallel job: what \"srun --ddp=on -n N\" does on\n"
    "a cluster, without Slurm. RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and the like are set.\n"
    "\n";
static const char help_tail[] =
    "\n"
    "Rank 0 reads ddp's standard input, the others /dev/null. SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGCONT\n"
    "are passed on to every rank. The exit code is that of the first rank that failed (128 + N: killed by signal N),\n"
    "and the other ranks are then ended; 0 when all succeeded; 75 when the job was asked to stop and has saved a\n"
    "checkpoint; 127 when PROGRAM is not found; 2 for wrong usage.\n";

static int help(void)
{
    fputs(help_head, stdout);
    knob_help(stdout, knobs, N_KNOBS);
    fputs(help_tail, stdout);
    return 0;
}

static int wrong_option(const ddp_error_t *e)
{
    fprintf(stderr, "ddp run: %s\n", e->text);
    return CLI_USAGE;
}

static int bad_usage(const char *what, const char *value)
{
    fprintf(stderr, "ddp run: %s%s: see \"ddp run --help\"\n", what, value);
    return CLI_USAGE;
}

/* "2,1,1": node[] of each rank, *ret_n ranks. 0, or -1. */
static int parse_layout(const char *text, int *node, int *ret_n)
{
    char *copy = strdup(text), *rest = copy, *part;
    int n = 0, n_nodes = 0, count = 0, rc = copy ? 0 : -1;
    while (rc == 0 && (part = strsep(&rest, ","))) {
        rc = num_int(part, 1, JOB_RANKS_MAX - n, &count);
        for (int i = 0; rc == 0 && i < count; i++)
            node[n++] = n_nodes;
        n_nodes++;
    }
    free(copy);
    if (rc == 0)
        *ret_n = n;
    return rc;
}

int cli_run(int argc, char **argv)
{
    static int node[JOB_RANKS_MAX];
    struct job job = {.node = node};
    struct knob_value v[N_KNOBS];
    ddp_error_t e;
    int n_layout = 0, program = 0;
    int rc = knob_argv(knobs, N_KNOBS, "\"ddp run --help\"", argc, argv, v, &program, &e);
    if (rc != 0)
        return rc > 0 ? help() : wrong_option(&e);
    knob_store(knobs, N_KNOBS, v, &job);
    if (v[LAYOUT].is_set && parse_layout(v[LAYOUT].path, node, &n_layout) < 0)
        return bad_usage("--layout wants the ranks of each node, as in 2,1,1, not ", v[LAYOUT].path);
    if (!job.n_ranks && !n_layout)
        return bad_usage("-n N is missing", "");
    if (job.n_ranks && n_layout && job.n_ranks != n_layout)
        return bad_usage("-n and --layout name different numbers of ranks", "");
    if (n_layout)
        job.n_ranks = n_layout;
    if (program >= argc)
        return bad_usage("the program to run is missing", "");
    job.argv = argv + program;
    return job_run(&job);
}
