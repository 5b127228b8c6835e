/* ask.c - asks the nodes of a job for its ranks: one task of srun's on each, beside what runs there. */
#include <config.h> /* environ */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/base/clock.h"
#include "runtime/cli/ps/ps.h"
#include "runtime/sched/command.h"

#define OUTPUT_MAX (16u << 20)
#define SRUN_S 60.0
#define SQUEUE_S 20.0
#define DIGITS "0123456789"
#define OPTION_MAX 4096

struct job {
    char step[PS_STEP_MAX]; /* as its ranks know it */
    char components[64];    /* of a heterogeneous job, as srun's option; "": it is no such job */
};

/* Of squeue's "11 10+1": component 1 of job 10, by whose number srun and the ranks go. Of 10+1 squeue tells all. */
static bool find_components(const char *lines, const char *step, struct job *ret)
{
    int leader, component, first = -1, last = -1, wanted = -1;
    sscanf(step, "%*d+%d", &wanted);
    for (const char *line = lines; *line; line += *line == '\n') {
        if (sscanf(line, "%*d %d+%d", &leader, &component) == 2 && (wanted < 0 || component == wanted)) {
            first = first < 0 || component < first ? component : first;
            last = component > last ? component : last;
            snprintf(ret->step, sizeof ret->step, "%d%.16s", leader, step + strcspn(step, "."));
        }
        line += strcspn(line, "\n");
    }
    if (last >= 0)
        snprintf(ret->components, sizeof ret->components, "--het-group=%d-%d", first, last);
    return last >= 0;
}

static int find_job(const char *step, struct job *ret, ddp_error_t *errp)
{
    char name[PS_STEP_MAX], out[16384];
    size_t len = strcspn(step, "."), n = 0;
    const char *const argv[] = {"squeue", "-h", "-t", "running", "-j", name, "-o", "%A %i", NULL};
    ddp_error_t e = {.text = "it does not run"};
    *ret = (struct job){.components = ""};
    snprintf(ret->step, sizeof ret->step, "%s", step);
    snprintf(name, sizeof name, "%.*s", (int)len, step);
    bool is_told = command_run(argv, deadline_in(SQUEUE_S), -1, out, sizeof out, &e) == 0;
    if ((is_told && find_components(out, step, ret)) || !strpbrk(name, "_+"))
        return 0;
    if (is_told)
        n = strspn(out, DIGITS);
    if (n == 0 || strchr(out, '\n') != strrchr(out, '\n'))
        return error_set(errp, DDP_E_USAGE, ESRCH, "%s: %.120s: give the number that it has as a job, SLURM_JOB_ID in "
                         "it", name, e.text);
    snprintf(ret->step, sizeof ret->step, "%.*s%s", (int)n, out, step + len);
    return 0;
}

/* What a job around this, or the user, has said of steps is not for ours: only where Slurm is found stays. */
static void leave_job(void)
{
    static const char *const kept[] = {"SLURM_CONF", "SLURM_CLUSTER", "SLURM_WORKING_CLUSTER", "SLURM_JWT",
                                       "SLURM_SACK"};
    for (size_t i = 0; environ && environ[i];) {
        char name[128], *entry = environ[i];
        bool is_kept = !begins(entry, "SLURM_") && !begins(entry, "SRUN_");
        for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
            is_kept |= begins(entry, kept[k]);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(entry, "="), entry);
        if (!is_kept)
            unsetenv(name);
        i += environ[i] == entry;
    }
}

/* exclude: as srun's option, or "". No number of nodes or tasks: srun then starts one task on each. It counts --quiet
 * once for each component, and keeps back errors, too, where that is twice. */
static int run_srun(const struct job *job, const char *exclude, char *out, ddp_error_t *errp)
{
    char id[64], self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = 0;
    snprintf(id, sizeof id, "--jobid=%.*s", (int)strcspn(job->step, "."), job->step);
    const char *const argv[] = {"srun", id, job->components[0] ? job->components : "--quiet",
                                exclude[0] ? exclude : "--overlap", "--overlap", "--mpi=none", "--mem=0",
                                "--cpu-bind=none", "--input=none", self, "ps", "--lines", job->step, NULL};
    return command_run(argv, deadline_in(SRUN_S), -1, out, OUTPUT_MAX, errp);
}

/* The nodes that srun has not reached, told, and as its option. It has ended what it started on the others. */
static bool find_silent(const char *out, char ret[OPTION_MAX])
{
    static const char mark[] = " failed on node ";
    char node[64];
    size_t n = 0;
    for (const char *at = out; (at = strstr(at, mark)); at++) {
        if (sscanf(at + strlen(mark), "%63[^: \n]", node) != 1 || n + sizeof "--exclude=" + sizeof node > OPTION_MAX)
            continue;
        fprintf(stderr, "ddp ps: node %s does not answer\n", node);
        n += (size_t)snprintf(ret + n, OPTION_MAX - n, "%s%s", n ? "," : "--exclude=", node);
    }
    return n > 0;
}

/* Ranks out of out's lines, which end with a null byte each from then on. */
static int take_ranks(char *out, struct ps_list *ret, ddp_error_t *errp)
{
    size_t room = 0;
    char *save;
    for (char *line = strtok_r(out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (ret->n == room) {
            struct ps_rank *more = realloc(ret->rank, (room = 2 * room + 64) * sizeof *more);
            if (!more)
                return error_errno(errp, "ddp ps");
            ret->rank = more;
        }
        ret->n += ps_read(line, &ret->rank[ret->n]);
    }
    return 0;
}

/* What else is in those size bytes: of whom nothing came, and why; where nothing is, how srun has ended. */
static void tell_rest(const char *out, size_t size, const ddp_error_t *e)
{
    struct ps_rank r;
    bool is_told = false;
    for (const char *line = out; line < out + size; line += strlen(line) + 1) {
        if (!*line || ps_read(line, &r))
            continue;
        fprintf(stderr, "ddp ps: %s\n", line);
        is_told = true;
    }
    if (!is_told)
        fprintf(stderr, "ddp ps: not every node has answered: %s\n", e->text);
}

int ps_ask(const char *step, struct ps_list *ret, bool *ret_whole, ddp_error_t *errp)
{
    struct job job;
    ddp_error_t e;
    char exclude[OPTION_MAX] = "";
    *ret = (struct ps_list){0};
    if (find_job(step, &job, errp) < 0)
        return -1;
    char *out = malloc(OUTPUT_MAX);
    if (!out)
        return error_errno(errp, "ddp ps");
    leave_job();
    int rc = run_srun(&job, exclude, out, &e);
    bool is_reached = rc == 0 || !find_silent(out, exclude);
    if (!is_reached)
        rc = run_srun(&job, exclude, out, &e);
    size_t size = strlen(out);
    *ret_whole = rc == 0 && is_reached;
    int taken = take_ranks(out, ret, &e);
    if (rc < 0 && ret->n > 0)
        tell_rest(out, size, &e);
    free(out);
    if (taken == 0 && rc < 0 && ret->n == 0 && e.code == ECHILD) /* srun itself says no */
        return error_set(errp, e.domain, e.code, "%s: does job %.*s run, and is it yours?", e.text,
                         (int)strcspn(step, "."), step);
    return taken < 0 || (rc < 0 && ret->n == 0) ? error_set(errp, e.domain, e.code, "%s", e.text) : 0;
}
