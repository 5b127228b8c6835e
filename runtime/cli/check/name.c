/* name.c - the nodes that an item names. */
#include <string.h>

#include "runtime/cli/check/judge.h"

#define MORE_BYTES 40 /* ", and 4000 more: see --json" */

const char *judge_host(const struct judge *j, int node)
{
    return j->c->facts[j->c->first[node]].host;
}

void judge_clear(struct judge *j)
{
    memset(j->node, 0, (size_t)j->c->n_nodes * sizeof *j->node);
}

int judge_name(struct judge *j)
{
    int n = 0, shown = 0;
    size_t at = 0;
    j->names[0] = 0;
    for (int k = 0; k < j->c->n_nodes; k++) {
        if (!j->node[k])
            continue;
        n++;
        if (at + strlen(judge_host(j, k)) + 24 < sizeof j->names) {
            at += (size_t)snprintf(j->names + at, sizeof j->names - at, "%s%s", at ? ", " : "", judge_host(j, k));
            shown++;
        }
    }
    if (shown < n)
        snprintf(j->names + at, sizeof j->names - at, " and %d more", n - shown);
    return n;
}

void judge_blame(const struct judge *j, struct verdict *v)
{
    for (int k = 0; k < j->c->n_nodes; k++)
        if (j->node[k])
            verdict_blame(v, judge_host(j, k));
}

const char *judge_cure(const struct judge *j, char *buf, size_t size)
{
    const char *sep = "";
    size_t at = (size_t)snprintf(buf, size, "look at it, or leave it out: --exclude=");
    int n_more = 0;
    for (int k = 0; k < j->c->n_nodes; k++) {
        if (!j->node[k])
            continue;
        if (n_more > 0 || at + strlen(judge_host(j, k)) + MORE_BYTES > size) {
            n_more++;
            continue;
        }
        at += (size_t)snprintf(buf + at, size - at, "%s%s", sep, judge_host(j, k));
        sep = ",";
    }
    if (n_more > 0)
        snprintf(buf + at, size - at, " and %d more: see --json", n_more);
    return buf;
}
