/* ps.c - `ddp ps`: the ranks of this node, or of a job's step on all of its nodes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/ps.h"
#include "runtime/sched/command.h"

#define OUTPUT_MAX (16u << 20)
#define SRUN_S 60.0
#define SQUEUE_S 20.0
#define DIGITS "0123456789"

static const char help_text[] =
    "usage: ddp ps [JOB[_TASK][.STEP]]\n"
    "\n"
    "Your ranks on this node, or those of a Slurm job on all of its nodes: state, cores in use, memory, how often the\n"
    "guards have started the step again; and of programs of libddp the last step, the collective that each is in and\n"
    "whom it waits for. Where ranks wait, a line says which rank has not come. Of other programs it is said in which\n"
    "call of gloo, MPI, NCCL or the C library they wait, where that can be seen.\n"
    "\n"
    "JOB_TASK is a task of an array, by its index there; JOB alone is one of them, not all.\n"
    "\n"
    "The exit code is 0; 1 where no rank runs, or the nodes cannot be asked; 2 for wrong usage.\n";

/* On each node of the job, beside what runs there. */
static int ask_nodes(const char *step, struct ps_list *ret, ddp_error_t *errp)
{
    static const char *const own[] = {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES",
                                      "SLURM_JOB_NUM_NODES", "SLURM_DDP", "SLURM_SPANK__SLURM_SPANK_OPTION_ddp_ddp"};
    char job[64], self[4096];
    snprintf(job, sizeof job, "--jobid=%.*s", (int)strcspn(step, "."), step);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        unsetenv(own[i]); /* of a job that this is asked from within */
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = 0;
    const char *const argv[] = {"srun", job, "--overlap", "--ntasks-per-node=1", "--quiet", "--mpi=none", "--mem=0",
                                "--input=none", self, "ps", "--lines", step, NULL};
    char *out = malloc(OUTPUT_MAX);
    int rc = out ? command_run(argv, deadline_in(SRUN_S), -1, out, OUTPUT_MAX, errp)
                 : error_errno(errp, "ddp ps");
    size_t room = 0;
    *ret = (struct ps_list){0};
    for (char *line = out, *end; rc == 0 && (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        if (ret->n == room) {
            struct ps_rank *more = realloc(ret->rank, (room = 2 * room + 64) * sizeof *more);
            if (!more) {
                rc = error_errno(errp, "ddp ps");
                break;
            }
            ret->rank = more;
        }
        ret->n += ps_read(line, &ret->rank[ret->n]);
    }
    free(out);
    return rc;
}

static int bad_usage(void)
{
    fprintf(stderr, "ddp ps: give a job or a step of it, as 1234, 1234_5 or 1234.0, or nothing (ddp ps --help)\n");
    return CLI_USAGE;
}

/* Goes past `sign` and the number behind it, where it is there. */
static bool skip_part(const char **at, char sign)
{
    size_t n = **at == sign ? strspn(*at + 1, DIGITS) + 1 : 0;
    *at += n;
    return n != 1;
}

static bool is_step(const char *text)
{
    const char *at = text + strspn(text, DIGITS);
    return at > text && skip_part(&at, '_') && skip_part(&at, '.') && !*at && strlen(text) < PS_STEP_MAX;
}

/* ret[PS_STEP_MAX] is the step; of an array's task with the number that the task has as a job. */
static int find_task(const char *step, char *ret, ddp_error_t *errp)
{
    char task[PS_STEP_MAX], out[1024];
    size_t len = strcspn(step, "."), n = 0;
    const char *const argv[] = {"squeue", "-h", "-t", "running", "-j", task, "-o", "%A", NULL};
    ddp_error_t e = {.text = "it does not run"};
    snprintf(ret, PS_STEP_MAX, "%s", step);
    if (!strchr(step, '_'))
        return 0;
    snprintf(task, sizeof task, "%.*s", (int)len, step);
    if (command_run(argv, deadline_in(SQUEUE_S), -1, out, sizeof out, &e) == 0)
        n = strspn(out, DIGITS);
    if (n == 0 || strcmp(out + n, "\n") != 0)
        return error_set(errp, DDP_E_USAGE, ESRCH, "%s: %.120s: give the number that it has as a job, SLURM_JOB_ID in "
                         "it", task, e.text);
    snprintf(ret, PS_STEP_MAX, "%.*s%s", (int)n, out, step + len);
    return 0;
}

/* On this node, or, where the user asks for a step, on its nodes. */
static int look(const char *step, bool has_lines, struct ps_list *ret, ddp_error_t *errp)
{
    char own[PS_STEP_MAX];
    if (step && !has_lines)
        return find_task(step, own, errp) < 0 ? -1 : ask_nodes(own, ret, errp);
    return ps_here(step, ret) < 0 ? error_errno(errp, "/proc") : 0;
}

int cli_ps(int argc, char **argv)
{
    struct ps_list l;
    ddp_error_t e;
    bool has_lines = argc > 1 && !strcmp(argv[1], "--lines"); /* for ask_nodes */
    const char *step = argc == 2 + has_lines ? argv[1 + has_lines] : NULL;
    if (step && (!strcmp(step, "--help") || !strcmp(step, "-h")))
        return fputs(help_text, stdout), 0;
    if (argc > 2 + has_lines || (step && !is_step(step)))
        return bad_usage();
    if (look(step, has_lines, &l, &e) < 0) {
        fprintf(stderr, "ddp ps: %s\n", e.text);
        return 1;
    }
    for (size_t i = 0; has_lines && i < l.n; i++)
        ps_write(stdout, &l.rank[i]);
    if (!has_lines && l.n > 0)
        ps_show(stdout, &l);
    else if (!has_lines)
        fprintf(stderr, "ddp ps: no rank of yours runs %s%s\n", step ? "in step " : "on this node", step ? step : "");
    free(l.rank);
    return l.n > 0 || has_lines ? 0 : 1;
}
