/* run.c - `ddp run`: its options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/num.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/job.h"

static const char help_text[] =
    "usage: ddp run -n N [--layout A,B,...] [--timeout S] [--] PROGRAM [ARGUMENTS...]\n"
    "\n"
    "Starts PROGRAM N times on this machine, wired up as one data-parallel job: what \"srun --ddp=on -n N\" does on\n"
    "a cluster, without Slurm. RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and the like are set.\n"
    "\n"
    "  -n N              how many ranks\n"
    "  --layout A,B,...  for trying out and tests: A ranks on a first virtual node, B on a second, and so on; the\n"
    "                    ranks then talk as if on several nodes (-n may be left out)\n"
    "  --boot ADDRESS    where the ranks find each other, instead of a socket in a folder that ddp run makes and\n"
    "                    removes: unix:/PATH or tcp:HOST:PORT\n"
    "  --timeout S       end the job after S seconds, with exit code 124\n"
    "\n"
    "Rank 0 reads ddp's standard input, the others /dev/null. SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGCONT\n"
    "are passed on to every rank. The exit code is that of the first rank that failed (128 + N: killed by signal N),\n"
    "and the other ranks are then ended; 0 when all succeeded; 75 when the job was asked to stop and has saved a\n"
    "checkpoint; 127 when PROGRAM is not found; 2 for wrong usage.\n";

static int bad_usage(const char *what, const char *value)
{
    fprintf(stderr, "ddp run: %s%s: see \"ddp run --help\"\n", what, value ? value : "");
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

/* The value of option name at argv[*i] ("--name VALUE" or "--name=VALUE"), or NULL; *i moves to its last word. */
static const char *option(const char *name, int argc, char **argv, int *i)
{
    size_t n = strlen(name);
    if (strncmp(argv[*i], name, n) != 0)
        return NULL;
    if (argv[*i][n] == '=' && n > 2)
        return argv[*i] + n + 1;
    if (argv[*i][n])
        return NULL;
    return *i + 1 < argc ? argv[++*i] : "";
}

int cli_run(int argc, char **argv)
{
    static int node[JOB_RANKS_MAX];
    struct job job = {.node = node};
    int n_layout = 0, i;
    const char *value;
    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--")) {
            i++;
            break;
        }
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(help_text, stdout);
            return 0;
        }
        if ((value = option("-n", argc, argv, &i))) {
            if (num_int(value, 1, JOB_RANKS_MAX, &job.n_ranks) < 0)
                return bad_usage("-n wants a number of ranks, 1..4096, not ", value);
        } else if ((value = option("--layout", argc, argv, &i))) {
            if (parse_layout(value, node, &n_layout) < 0)
                return bad_usage("--layout wants the ranks of each node, as in 2,1,1, not ", value);
        } else if ((value = option("--boot", argc, argv, &i))) {
            job.boot_addr = value;
        } else if ((value = option("--timeout", argc, argv, &i))) {
            if (num_double(value, 0.001, 1e8, &job.timeout_s) < 0)
                return bad_usage("--timeout wants seconds, not ", value);
        } else {
            return bad_usage("unknown option ", argv[i]);
        }
    }
    if (!job.n_ranks && !n_layout)
        return bad_usage("-n N is missing", NULL);
    if (job.n_ranks && n_layout && job.n_ranks != n_layout)
        return bad_usage("-n and --layout name different numbers of ranks", NULL);
    if (n_layout)
        job.n_ranks = n_layout;
    if (i >= argc)
        return bad_usage("the program to run is missing", NULL);
    job.argv = argv + i;
    return job_run(&job);
}
