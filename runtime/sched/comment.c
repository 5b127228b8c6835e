#include "runtime/sched/comment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/begins.h"
#include "runtime/base/num.h"
#include "runtime/sched/command.h"
#include "runtime/sched/slurm.h"

#define MARK "ddp: "
#define BETWEEN " | "
#define BEGIN "<ddp<"
#define END ">ddp>"
#define COMPONENT_MAX (SLURM_ID_MAX + 8)
#define COMPONENTS_MAX 128 /* of a heterogeneous job: Slurm's own limit */

/* Where ours begins; at the end: nowhere. */
static size_t own_part(const char *comment)
{
    const char *p = strstr(comment, BETWEEN MARK);
    if (begins(comment, MARK))
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

/* The line of text that begins with "ID BEGIN", behind that; NULL: there is none. */
static const char *find_line(const char *text, const char *id)
{
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (begins(line, id) && begins(line + strlen(id), " " BEGIN))
            return line + strlen(id) + strlen(" " BEGIN);
    return NULL;
}

int comment_find(const char *text, const char *id, char ret[COMMENT_MAX], ddp_error_t *errp)
{
    const char *from = find_line(text, id), *to = from ? strstr(from, END) : NULL;
    if (!to || to - from >= COMMENT_MAX)
        return error_set(errp, DDP_E_DATA, EINVAL, "squeue: no comment of job %s, or a longer one than %d bytes, in "
                         "\"%.60s\"", id, COMMENT_MAX - 1, text);
    snprintf(ret, COMMENT_MAX, "%.*s", (int)(to - from), from);
    return 0;
}

/* Of a heterogeneous job's components, whose comments are one each, and which have one SLURM_JOB_ID: rank 0's, by its
 * nodes. */
static void name_component(const char *id, char ret[COMPONENT_MAX])
{
    const char *text = getenv("SLURM_HET_SIZE"), *ours = getenv("SLURM_JOB_NODELIST");
    int size, k = 0;
    snprintf(ret, COMPONENT_MAX, "%s", id);
    if (!text || !ours || num_int(text, 1, COMPONENTS_MAX, &size) < 0)
        return;
    for (int i = 0; i < size; i++) {
        char name[64];
        snprintf(name, sizeof name, "SLURM_JOB_NODELIST_HET_GROUP_%d", i);
        const char *nodes = getenv(name);
        if (nodes && !strcmp(nodes, ours)) {
            k = i;
            break;
        }
    }
    snprintf(ret, COMPONENT_MAX, "%s+%d", id, k);
}

int comment_set(const char *id, const char *ours, uint64_t deadline, ddp_error_t *errp)
{
    char out[4 * COMMENT_MAX], before[COMMENT_MAX], component[COMPONENT_MAX], both[COMMENT_MAX];
    char job[COMPONENT_MAX + 8], value[COMMENT_MAX + 8];
    const char *const ask[] = {"squeue", "-h", "-t", "all", "-j", component, "-o", "%i " BEGIN "%k" END, NULL};
    const char *const tell[] = {"scontrol", "update", job, value, NULL};
    name_component(id, component);
    if (command_run(ask, deadline, -1, out, sizeof out, errp) < 0 ||
        comment_find(out, component, before, errp) < 0 || comment_join(before, ours, both, errp) < 0)
        return -1;
    snprintf(job, sizeof job, "JobId=%s", component);
    snprintf(value, sizeof value, "Comment=%s", both);
    return command_run(tell, deadline, -1, out, sizeof out, errp);
}
