#include "runtime/sched/comment.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/sched/command.h"
#include "runtime/sched/slurm.h"

#define MARK "ddp: "
#define BETWEEN " | "

/* Where ours begins; at the end: nowhere. */
static size_t own_part(const char *comment)
{
    const char *p = strstr(comment, BETWEEN MARK);
    if (!strncmp(comment, MARK, strlen(MARK)))
        return 0;
    return p ? (size_t)(p - comment) : strlen(comment);
}

int comment_join(const char *before, const char *ours, char ret[COMMENT_MAX], ddp_error_t *errp)
{
    size_t n = strcmp(before, "(null)") ? own_part(before) : 0;
    int size = snprintf(NULL, 0, "%.*s%s" MARK "%s", (int)n, before, n ? BETWEEN : "", ours);
    if (size >= COMMENT_MAX)
        return error_set(errp, DDP_E_DATA, E2BIG, "the job's comment is too long to add to it");
    snprintf(ret, COMMENT_MAX, "%.*s%s" MARK "%s", (int)n, before, n ? BETWEEN : "", ours);
    return 0;
}

int comment_find(const char *text, char ret[COMMENT_MAX], ddp_error_t *errp)
{
    const char *from = strstr(text, "<ddp<"), *to = from ? strstr(from, ">ddp>") : NULL;
    if (!to || to - (from + 5) >= COMMENT_MAX)
        return error_set(errp, DDP_E_DATA, EINVAL, "squeue: no comment, or a longer one than %d bytes, in \"%.60s\"",
                         COMMENT_MAX - 1, text);
    snprintf(ret, COMMENT_MAX, "%.*s", (int)(to - (from + 5)), from + 5);
    return 0;
}

int comment_set(const char *id, const char *ours, uint64_t deadline, ddp_error_t *errp)
{
    char out[4 * COMMENT_MAX], before[COMMENT_MAX], job[SLURM_ID_MAX + 8], both[COMMENT_MAX];
    char value[COMMENT_MAX + 8];
    const char *const ask[] = {"squeue", "-h", "-t", "all", "-j", id, "-o", COMMENT_FORMAT, NULL};
    const char *const tell[] = {"scontrol", "update", job, value, NULL};
    if (command_run(ask, deadline, -1, out, sizeof out, errp) < 0 || comment_find(out, before, errp) < 0 ||
        comment_join(before, ours, both, errp) < 0)
        return -1;
    snprintf(job, sizeof job, "JobId=%s", id);
    snprintf(value, sizeof value, "Comment=%s", both);
    return command_run(tell, deadline, -1, out, sizeof out, errp);
}
