/* ps.c - `ddp ps`: the ranks of this node, or of a job's step on all of its nodes. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/cli.h"
#include "runtime/cli/ps/ps.h"

#define DIGITS "0123456789"

static const char help_text[] =
    "usage: ddp ps [JOB[_TASK|+COMPONENT][.STEP]]\n"
    "\n"
    "Your ranks on this node, or those of a Slurm job on all of its nodes: state, cores in use, memory, how often the\n"
    "guards have started the step again; and of programs of libddp the last step, the collective that each is in and\n"
    "whom it waits for. Where ranks wait, a line says which rank has not come. Of other programs it is said in which\n"
    "call of gloo, MPI, NCCL or the C library they wait, where that can be seen.\n"
    "\n"
    "JOB_TASK is a task of an array, by its index there; JOB alone is one of them, not all. JOB+COMPONENT\n"
    "is one of a heterogeneous job's, JOB alone all of them.\n"
    "\n"
    "The exit code is 0; 1 where no rank runs, or a node cannot be asked; 2 for wrong usage.\n";

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
    return at > text && skip_part(&at, '_') && skip_part(&at, '+') && skip_part(&at, '.') && !*at &&
           strlen(text) < PS_STEP_MAX;
}

/* A line for each rank of this node, to ps_ask. Where nodes share a machine, /proc has the others' ranks too. */
static void write_lines(const struct ps_list *l)
{
    const char *node = getenv("SLURMD_NODENAME");
    for (size_t i = 0; i < l->n; i++)
        if (!node || !strncmp(l->rank[i].node, node, sizeof l->rank[i].node - 1))
            ps_write(stdout, &l->rank[i]);
}

/* On this node, or, where the user asks for a step, on its nodes. */
static int look(const char *step, bool has_lines, struct ps_list *ret, bool *ret_whole, ddp_error_t *errp)
{
    *ret_whole = true;
    if (step && !has_lines)
        return ps_ask(step, ret, ret_whole, errp);
    return ps_here(step, ret) < 0 ? error_errno(errp, "/proc") : 0;
}

int cli_ps(int argc, char **argv)
{
    struct ps_list l;
    ddp_error_t e;
    bool is_whole, has_lines = argc > 1 && !strcmp(argv[1], "--lines"); /* for ps_ask */
    const char *step = argc == 2 + has_lines ? argv[1 + has_lines] : NULL;
    if (step && (!strcmp(step, "--help") || !strcmp(step, "-h")))
        return fputs(help_text, stdout), 0;
    if (argc > 2 + has_lines || (step && !is_step(step)))
        return bad_usage();
    if (look(step, has_lines, &l, &is_whole, &e) < 0) {
        fprintf(stderr, "ddp ps: %s\n", e.text);
        return 1;
    }
    if (has_lines)
        write_lines(&l);
    else if (l.n > 0)
        ps_show(stdout, &l, ps_helper());
    else
        fprintf(stderr, "ddp ps: no rank of yours runs %s%s\n",
                !step ? "on this node" : strchr(step, '.') ? "in step " : "in job ", step ? step : "");
    free(l.rank);
    return is_whole && (l.n > 0 || has_lines) ? 0 : 1;
}
