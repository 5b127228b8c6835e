#include "runtime/sched/slurm.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/num.h"
#include "runtime/sched/command.h"

bool slurm_job_id(char ret[SLURM_ID_MAX + 1])
{
    const char *job = getenv("SLURM_JOB_ID");
    const char *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID");
    uint64_t n;
    if (!job || num_u64(job, UINT32_MAX, &n) < 0 || n == 0)
        return false;
    if (array && task && num_u64(array, UINT32_MAX, &n) == 0 && num_u64(task, UINT32_MAX, &n) == 0)
        snprintf(ret, SLURM_ID_MAX + 1, "%.20s_%.20s", array, task);
    else
        snprintf(ret, SLURM_ID_MAX + 1, "%.20s", job);
    return true;
}

int slurm_restarts(void)
{
    return (int)num_variable("SLURM_RESTART_COUNT", INT32_MAX);
}

/* The value of the first " KEY=VALUE" behind the job's name; of what users write, all else comes behind what is looked
 * for here. Cut at size - 1 bytes. False: there is none. */
static bool find(const char *text, const char *key, char *ret, size_t size)
{
    size_t n = strlen(key);
    const char *user = strstr(text, " UserId=");
    for (const char *p = user ? user : text; (p = strstr(p, key)); p += n)
        if ((p == text || isspace((unsigned char)p[-1])) && p[n] == '=') {
            p += n + 1;
            snprintf(ret, size, "%.*s", (int)strcspn(p, " \n"), p);
            return true;
        }
    return false;
}

static enum slurm_state state_of(const char *state, const char *reason, int n_restarts, int restarts)
{
    if (!strcmp(state, "RUNNING") || !strcmp(state, "SUSPENDED") || !strcmp(state, "CONFIGURING"))
        return SLURM_RUNNING;
    if (!strcmp(state, "PENDING") || !strcmp(state, "REQUEUED") || n_restarts > restarts)
        return SLURM_REQUEUED;
    return !strcmp(state, "TIMEOUT") || !strcmp(reason, "TimeLimit") ? SLURM_TIMED_OUT : SLURM_ENDING;
}

static int64_t number_of(const char *text, const char *key)
{
    char number[32];
    int64_t n;
    return find(text, key, number, sizeof number) && num_i64(number, 1, INT64_MAX, &n) == 0 ? n : 0;
}

/* SuspendTime is when it was last suspended, or went on; SecsPreSuspend how long it had run then. */
static int64_t suspended_s(const char *text)
{
    int64_t began = number_of(text, "StartTime"), at = number_of(text, "SuspendTime");
    int64_t s = at - began - number_of(text, "SecsPreSuspend");
    return began > 0 && at > 0 && s > 0 ? s : 0;
}

int slurm_parse(const char *text, int restarts, struct slurm_job *ret, ddp_error_t *errp)
{
    char state[32], reason[64] = "", number[32] = "", flag[8];
    struct slurm_job job = {.is_batch = find(text, "BatchFlag", flag, sizeof flag) && strcmp(flag, "0") != 0};
    int n_restarts = 0;
    if (!find(text, "JobState", state, sizeof state))
        return error_set(errp, DDP_E_DATA, EINVAL, "scontrol show job: no JobState in \"%.60s\"", text);
    find(text, "Reason", reason, sizeof reason);
    if (find(text, "Restarts", number, sizeof number) && num_int(number, 0, INT32_MAX, &n_restarts) < 0)
        n_restarts = 0;
    job.state = state_of(state, reason, n_restarts, restarts);
    job.may_requeue = find(text, "Requeue", flag, sizeof flag) && strcmp(flag, "0") != 0;
    job.end_s = number_of(text, "EndTime"); /* "Unknown": 0 */
    job.suspended_s = suspended_s(text);
    if (!find(text, "ExcNodeList", job.excluded, sizeof job.excluded) || !strcmp(job.excluded, "(null)"))
        job.excluded[0] = 0;
    *ret = job;
    return 0;
}

int slurm_ask(const char *id, uint64_t deadline, int cancel_fd, struct slurm_job *ret, ddp_error_t *errp)
{
    char out[8192];
    const char *const argv[] = {"scontrol", "-o", "show", "job", id, NULL};
    if (command_run(argv, deadline, cancel_fd, out, sizeof out, errp) < 0)
        return -1;
    return slurm_parse(out, slurm_restarts(), ret, errp);
}

int slurm_requeue(const char *id, uint64_t deadline, ddp_error_t *errp)
{
    char out[512];
    const char *const argv[] = {"scontrol", "requeue", id, NULL};
    return command_run(argv, deadline, -1, out, sizeof out, errp);
}

int slurm_cancel(const char *step, uint64_t deadline, ddp_error_t *errp)
{
    char out[512];
    const char *const argv[] = {"scancel", step, NULL};
    return command_run(argv, deadline, -1, out, sizeof out, errp);
}

int slurm_exclude(const char *id, const char *nodes, uint64_t deadline, ddp_error_t *errp)
{
    char out[512], job[SLURM_ID_MAX + 8], list[2048];
    const char *const argv[] = {"scontrol", "update", job, list, NULL};
    snprintf(job, sizeof job, "JobId=%s", id);
    if ((size_t)snprintf(list, sizeof list, "ExcNodeList=%s", nodes) >= sizeof list)
        return error_set(errp, DDP_E_USAGE, E2BIG, "the list of nodes to leave out is longer than %zu bytes",
                         sizeof list);
    return command_run(argv, deadline, -1, out, sizeof out, errp);
}
