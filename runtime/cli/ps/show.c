/* show.c - ranks as lines for another ddp, and as a table for people. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/ps/ps.h"

#define MARK "ddp-ps"
#define WAIT_S 1.0 /* every rank waits now and then */

/* ---- lines ---- */

void ps_write(FILE *f, const struct ps_rank *r)
{
    const struct flight_view *v = &r->flight;
    fprintf(f, MARK "\t%s\t%s\t%d\t%ld\t%c\t%.3f\t%.1f\t%d\t", r->step, r->node, r->rank, r->pid, r->state, r->cpu,
            r->mib, r->restarts);
    fprintf(f, "%d\t%d\t%llu\t%llu\t%d\t%.3f\t%s\t%s\t", r->has_flight, v->size, (unsigned long long)v->n_steps,
            (unsigned long long)v->n_calls, v->waits_for, v->waits_s, r->command, r->waits);
    for (int i = 0; i < FLIGHT_CALLS; i++)
        fprintf(f, "%s,", v->name[i]);
    fputc('\n', f);
}

static bool read_names(const char *text, struct flight_view *v)
{
    for (int i = 0; i < FLIGHT_CALLS; i++) {
        size_t n = strcspn(text, ",");
        if (!text[n] || n >= FLIGHT_NAME_MAX)
            return false;
        memcpy(v->name[i], text, n);
        text += n + 1;
    }
    return true;
}

bool ps_read(const char *line, struct ps_rank *ret)
{
    unsigned long long n_steps, n_calls;
    int has_flight, at = 0;
    memset(ret, 0, sizeof *ret);
    struct flight_view *v = &ret->flight;
    if (sscanf(line, MARK "\t%31[^\t]\t%63[^\t]\t%d\t%ld\t%c\t%lf\t%lf\t%d\t%d\t%d\t%llu\t%llu\t%d\t%lf\t%n", ret->step,
               ret->node, &ret->rank, &ret->pid, &ret->state, &ret->cpu, &ret->mib, &ret->restarts, &has_flight,
               &v->size, &n_steps, &n_calls, &v->waits_for, &v->waits_s, &at) < 14 || at == 0)
        return false;
    const char *command = line + at, *waits = command + strcspn(command, "\t");
    snprintf(ret->command, sizeof ret->command, "%.*s", (int)(waits - command), command);
    waits += *waits ? 1 : 0;
    size_t n = strcspn(waits, "\t");
    snprintf(ret->waits, sizeof ret->waits, "%.*s", (int)n, waits);
    v->n_steps = n_steps;
    v->n_calls = n_calls;
    ret->has_flight = has_flight != 0;
    return waits[n] && read_names(waits + n + 1, v);
}

/* ---- the table ---- */

static int compare(const void *a, const void *b)
{
    const struct ps_rank *x = a, *y = b;
    int steps = strcmp(x->step, y->step);
    return steps ? steps : (x->rank > y->rank) - (x->rank < y->rank);
}

static const char *call_name(const struct flight_view *v, unsigned long long call)
{
    const char *name = v->name[call % FLIGHT_CALLS];
    return call + FLIGHT_CALLS > v->n_calls && *name ? name : "a collective";
}

static bool lacks_helper(const struct ps_rank *r)
{
    return !strcmp(r->waits, PS_LACKS);
}

/* "step 14, all-reduce 120, waits 12.0 s for rank 3"; in another library's call "step 14, in gloo::allreduce",
 * and without libddp "in gloo::allreduce" */
static const char *doing(const struct ps_rank *r, char *buf, size_t size)
{
    const struct flight_view *v = &r->flight;
    size_t n = r->has_flight ? (size_t)snprintf(buf, size, "step %llu, ", (unsigned long long)v->n_steps) : 0;
    if (*r->waits && !lacks_helper(r)) {
        snprintf(buf + n, size - n, "in %.64s", r->waits);
        return buf;
    }
    if (!r->has_flight || v->n_calls == 0)
        return "-";
    n += (size_t)snprintf(buf + n, size - n, "%s %llu", call_name(v, v->n_calls), (unsigned long long)v->n_calls);
    if (v->waits_for >= 0)
        snprintf(buf + n, size - n, ", waits %.1f s for rank %d", v->waits_s, v->waits_for);
    else if (v->waits_for != FLIGHT_NOBODY)
        snprintf(buf + n, size - n, ", waits %.1f s", v->waits_s);
    return buf;
}

/* One that a signal stopped holds up those for whom it waited itself. */
static bool waits(const struct ps_rank *r)
{
    return r->has_flight && r->state != 'T' && r->flight.waits_for != FLIGHT_NOBODY && r->flight.waits_s >= WAIT_S;
}

/* Is a rather to blame than b: it is behind, or it is where b is and does not wait. */
static bool is_worse(const struct ps_rank *a, const struct ps_rank *b)
{
    return a->flight.n_calls != b->flight.n_calls ? a->flight.n_calls < b->flight.n_calls : !waits(a) && waits(b);
}

/* rank[0..n) are of one step. */
static void judge(FILE *f, const struct ps_rank *rank, size_t n)
{
    const struct ps_rank *ahead = NULL, *behind = NULL;
    size_t n_waiting = 0;
    for (size_t i = 0; i < n; i++) {
        if (!rank[i].has_flight)
            continue;
        if (!ahead || is_worse(ahead, &rank[i]))
            ahead = &rank[i];
        if (!behind || is_worse(&rank[i], behind))
            behind = &rank[i];
    }
    for (size_t i = 0; i < n; i++)
        n_waiting += waits(&rank[i]) && is_worse(behind, &rank[i]);
    if (n_waiting == 0)
        return;
    bool is_in = behind->flight.n_calls == ahead->flight.n_calls;
    unsigned long long call = behind->flight.n_calls + !is_in;
    fprintf(f, "%s: rank %d (%s) %s %s %llu, after step %llu; %zu rank%s\n", behind->step, behind->rank,
            behind->node, is_in ? "does not go on in" : "has not entered", call_name(&ahead->flight, call), call,
            (unsigned long long)behind->flight.n_steps, n_waiting, n_waiting == 1 ? " waits" : "s wait");
}

/* Of the first node. */
static void say_lack(FILE *f, const struct ps_list *l, const char *helper)
{
    for (size_t i = 0; i < l->n; i++)
        if (lacks_helper(&l->rank[i])) {
            fprintf(f, ANSWER_PROGRAM " is missing on %s: %s\n", l->rank[i].node, helper);
            return;
        }
}

void ps_show(FILE *f, struct ps_list *l, const char *helper)
{
    qsort(l->rank, l->n, sizeof *l->rank, compare);
    fprintf(f, "%-12s %5s %-12s %8s %5s %6s %9s %8s  %-52s %s\n", "STEP", "RANK", "NODE", "PID", "STATE", "CPU", "MIB",
            "RESTARTS", "DOES", "COMMAND");
    for (size_t i = 0; i < l->n; i++) {
        const struct ps_rank *r = &l->rank[i];
        char text[96];
        fprintf(f, "%-12s %5d %-12s %8ld %5c %6.2f %9.1f %8d  %-52s %s\n", r->step, r->rank, r->node, r->pid, r->state,
                r->cpu, r->mib, r->restarts, doing(r, text, sizeof text), r->command);
    }
    for (size_t i = 0, end; i < l->n; i = end) {
        for (end = i; end < l->n && !strcmp(l->rank[i].step, l->rank[end].step); end++)
            ;
        judge(f, l->rank + i, end - i);
    }
    say_lack(f, l, helper);
}
