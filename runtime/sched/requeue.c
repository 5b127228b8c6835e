#include <config.h> /* asprintf */

#include "runtime/sched/requeue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"

#define ARGS_MAX 65536

enum requeue_what requeue_judge(const struct slurm_job *job, int restarts, int limit)
{
    if (!job->is_batch)
        return REQUEUE_INTERACTIVE;
    if (job->state == SLURM_REQUEUED)
        return REQUEUE_DONE;
    if (job->state == SLURM_ENDING)
        return REQUEUE_CANCELLED;
    if (!job->may_requeue)
        return REQUEUE_FORBIDDEN;
    return restarts >= limit ? REQUEUE_OFTEN : REQUEUE_DO;
}

/* ---- the command ---- */

static void put_quoted(FILE *f, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    if (*text && !text[strspn(text, plain)]) {
        fputs(text, f);
        return;
    }
    fputc('\'', f);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", f);
        else
            fputc(*text, f);
    fputc('\'', f);
}

static void put_option(FILE *f, const char *option, const char *variable)
{
    const char *value = getenv(variable);
    if (!value || !*value)
        return;
    fprintf(f, " %s", option);
    put_quoted(f, value);
}

static void put_launcher(FILE *f)
{
    static const struct {
        const char *option, *variable;
    } options[] = {
        {"-N", "SLURM_STEP_NUM_NODES"},          {"-n", "SLURM_STEP_NUM_TASKS"},
        {"--ntasks-per-node=", "SLURM_NTASKS_PER_NODE"}, {"-c", "SLURM_CPUS_PER_TASK"},
        {"--gpus-per-node=", "SLURM_GPUS_PER_NODE"},     {"-p", "SLURM_JOB_PARTITION"},
        {"-A", "SLURM_JOB_ACCOUNT"},
    };
    const char *ddp = getenv(REQUEUE_OPTION_VARIABLE);
    if (!getenv("SLURM_STEP_NUM_TASKS")) {
        fputs("ddp run", f);
        put_option(f, "-n ", "WORLD_SIZE");
        return;
    }
    fputs("srun --ddp=", f);
    put_quoted(f, ddp && *ddp ? ddp : "on");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        put_option(f, options[i].option, options[i].variable);
}

char *requeue_command(const char *args, size_t n)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    put_launcher(f);
    for (const char *p = args; p < args + n; p += strnlen(p, (size_t)(args + n - p)) + 1) {
        fputc(' ', f);
        put_quoted(f, p);
    }
    bool failed = ferror(f);
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

static char *own_command(void)
{
    char *args = malloc(ARGS_MAX + 1), *command = NULL;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = args && fd >= 0 ? read(fd, args, ARGS_MAX) : -1;
    io_close(fd);
    if (n > 0) {
        args[n] = 0;
        command = requeue_command(args, (size_t)n);
    }
    free(args);
    return command;
}

/* ---- the job ---- */

static char *note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static char *note(const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    int rc = vasprintf(&text, fmt, ap);
    va_end(ap);
    return rc < 0 ? NULL : text;
}

static char *tell_command(const struct requeue_request *r, const char *why)
{
    char *command = r->command ? strdup(r->command) : r->args ? requeue_command(r->args, r->n_args) : own_command();
    char *text = note("%s; to go on: %s", why, command ? command : "run it again");
    free(command);
    return text;
}

/* Nodes that the job was kept off before stay so. */
static int exclude_nodes(const char *id, const struct slurm_job *job, const char *exclude, double patience_s,
                         ddp_error_t *errp)
{
    char nodes[2 * sizeof job->excluded];
    if (strlen(job->excluded) + 1 == sizeof job->excluded || strlen(exclude) >= sizeof job->excluded)
        return error_set(errp, DDP_E_USAGE, E2BIG, "the list of nodes to leave out is too long");
    snprintf(nodes, sizeof nodes, "%s%s%s", job->excluded, job->excluded[0] ? "," : "", exclude);
    return slurm_exclude(id, nodes, deadline_in(patience_s), errp);
}

static char *tell_failure(const char *id, const ddp_error_t *e)
{
    if (e->code == ENOENT)
        return note("job %s is not requeued: there is no scontrol here: let the batch script run \"ddp requeue $?\" "
                    "after srun", id);
    return note("job %s is not requeued: %s: \"ddp requeue $?\" after srun in the batch script tries again, and so "
                "does scontrol requeue %s", id, e->text, id);
}

/* Slurm's word may come between question and request: whoever is asked to requeue what waits already says so. */
static bool is_requeued(const char *id, double patience_s)
{
    struct slurm_job job;
    return slurm_ask(id, deadline_in(patience_s), -1, &job, NULL) == 0 && job.state == SLURM_REQUEUED;
}

static void say(const struct requeue_request *r, const char *line)
{
    if (r->say)
        r->say(line ? line : "no memory to say whether the job is requeued");
}

/* What it says at first is *ret_note, unless that was wrong. */
static bool requeue(const char *id, const struct slurm_job *job, const struct requeue_request *r, char **ret_note)
{
    ddp_error_t e;
    const char *exclude = r->exclude;
    char *more = NULL;
    *ret_note = note("job %s is requeued: restart %d of at most %d", id, slurm_restarts() + 1, r->limit);
    say(r, *ret_note);
    bool is_done = slurm_requeue(id, deadline_in(r->patience_s), &e) == 0;
    if (is_done && exclude && *exclude && exclude_nodes(id, job, exclude, r->patience_s, &e) < 0)
        more = note("job %s is requeued, but may run on %s again: %s", id, exclude, e.text);
    else if (!is_done && !(is_done = is_requeued(id, r->patience_s)))
        more = tell_failure(id, &e);
    else
        return true;
    free(*ret_note);
    *ret_note = more;
    say(r, more);
    return is_done;
}

/* Whether the job is to be requeued; else *ret_note says why not, and *ret_is_done whether somebody else has. */
static bool is_due(const char *id, const struct requeue_request *r, struct slurm_job *ret, bool *ret_is_done,
                   char **ret_note)
{
    ddp_error_t e;
    *ret_is_done = false;
    if (slurm_ask(id, deadline_in(r->patience_s), -1, ret, &e) < 0) {
        *ret_note = tell_failure(id, &e);
        return false;
    }
    switch (requeue_judge(ret, slurm_restarts(), r->limit)) {
    case REQUEUE_DO:
        return true;
    case REQUEUE_DONE:
        *ret_is_done = true;
        *ret_note = note("job %s is requeued already", id);
        break;
    case REQUEUE_CANCELLED:
        *ret_note = note("job %s is not requeued: it is being cancelled; to go on: scontrol requeue %s", id, id);
        break;
    case REQUEUE_INTERACTIVE:
        *ret_note = tell_command(r, "Slurm requeues batch jobs only, and this is an interactive one");
        break;
    case REQUEUE_FORBIDDEN:
        *ret_note = note("job %s is not requeued: it was submitted with --no-requeue, or the site says JobRequeue=0: "
                         "submit it with --requeue", id);
        break;
    case REQUEUE_OFTEN:
        *ret_note = note("job %s is not requeued: it was restarted %d times, the limit (requeue-limit); to go on: "
                         "scontrol requeue %s", id, slurm_restarts(), id);
        break;
    }
    return false;
}

bool requeue_job(const struct requeue_request *r, char **ret_note)
{
    char id[SLURM_ID_MAX + 1];
    struct slurm_job job;
    bool is_done = false;
    if (!slurm_job_id(id))
        *ret_note = tell_command(r, "this is no job of Slurm's, and nobody starts it again");
    else if (is_due(id, r, &job, &is_done, ret_note))
        return requeue(id, &job, r, ret_note);
    say(r, *ret_note);
    return is_done;
}
