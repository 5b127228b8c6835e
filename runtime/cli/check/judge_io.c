/* judge_io.c - what is wrong with links, GPUs and the folder of checkpoints. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/num.h"
#include "runtime/base/stats.h"
#include "runtime/cli/check/judge.h"

#define SLOW_WRITE 0.25 /* of the median node's speed */

/* ---- links ---- */

static struct verdict *say_link(struct judge *j, const struct check_link *l, const char *what, const char *cure,
                                double gbs, double latency_s)
{
    const char *a = judge_host(j, l->a), *b = judge_host(j, l->b);
    if (l->error[0])
        return verdict_add(j->out, VERDICT_FAIL, "links", cure, "%s: %s-%s: %s", what, a, b, l->error);
    return verdict_add(j->out, VERDICT_FAIL, "links", cure, "%s: %s-%s %.3g GB/s, %.0f us; the median node %.3g GB/s, "
                       "%.0f us", what, a, b, l->gbs, l->latency_s * 1e6, gbs, latency_s * 1e6);
}

static bool say_slow_nodes(struct judge *j, double gbs, double latency_s)
{
    const struct check *c = j->c;
    const struct check_link *worst = NULL;
    char cure[400], what[300];
    if (judge_name(j) == 0)
        return false;
    for (size_t i = 0; i < c->n_links; i++) {
        const struct check_link *l = &c->link[i];
        if ((j->node[l->a] || j->node[l->b]) && (!worst || l->gbs < worst->gbs))
            worst = l;
    }
    snprintf(what, sizeof what, "slow on %s", j->names);
    judge_cure(j, cure, sizeof cure);
    judge_blame(j, say_link(j, worst, what, cure, gbs, latency_s));
    return true;
}

static bool say_slow_link(struct judge *j, double gbs, double latency_s)
{
    const struct check *c = j->c;
    const struct check_link *worst = NULL;
    int n = 0;
    char cure[400], what[64];
    for (size_t i = 0; i < c->n_links; i++)
        if (check_slow_link(&c->link[i], j->node, gbs, latency_s)) {
            n++;
            worst = !worst || c->link[i].gbs < worst->gbs ? &c->link[i] : worst;
        }
    if (!worst)
        return false;
    judge_clear(j);
    j->node[worst->b] = true;
    judge_cure(j, cure, sizeof cure);
    snprintf(what, sizeof what, "%d slow, though no node is", n);
    judge_blame(j, say_link(j, worst, what, cure, gbs, latency_s));
    return true;
}

void judge_links(struct judge *j)
{
    const struct check *c = j->c;
    double gbs, latency_s, least = INFINITY;
    if (c->n_nodes < 2)
        return;
    judge_clear(j);
    check_slow_nodes(c, j->node, &gbs, &latency_s);
    if (say_slow_nodes(j, gbs, latency_s) || say_slow_link(j, gbs, latency_s))
        return;
    for (size_t i = 0; i < c->n_links; i++)
        least = c->link[i].gbs < least ? c->link[i].gbs : least;
    verdict_add(j->out, VERDICT_OK, "links", NULL, "%zu pair%s of nodes: %.3g GB/s each way, %.3g the least, %.0f us%s",
                c->n_links, PLURAL(c->n_links), gbs, least, latency_s * 1e6,
                c->n_nodes == 2 ? " (two nodes alone are not compared)" : "");
}

/* ---- GPUs, folder ---- */

void judge_gpus(struct judge *j)
{
    const struct check *c = j->c;
    int most = 0, least = INT32_MAX, fault = -1;
    for (int k = 0; k < c->n_nodes; k++) {
        const struct check_facts *f = &c->facts[c->first[k]];
        most = f->n_gpus > most ? f->n_gpus : most;
        least = f->n_gpus < least ? f->n_gpus : least;
        fault = f->gpu_fault[0] && fault < 0 ? k : fault;
    }
    if (most == 0)
        return;
    judge_clear(j);
    for (int k = 0; k < c->n_nodes; k++)
        j->node[k] = fault >= 0 ? c->facts[c->first[k]].gpu_fault[0] != 0 : c->facts[c->first[k]].n_gpus < most;
    char cure[400];
    judge_cure(j, cure, sizeof cure);
    if (fault >= 0) {
        judge_name(j);
        judge_blame(j, verdict_add(j->out, VERDICT_FAIL, "gpus", cure, "%s: %s", j->names,
                                   c->facts[c->first[fault]].gpu_fault));
    } else if (least < most) {
        judge_name(j);
        judge_blame(j, verdict_add(j->out, VERDICT_FAIL, "gpus", cure, "%s: fewer GPUs than other nodes, %d of %d",
                                   j->names, least, most));
    } else {
        verdict_add(j->out, VERDICT_OK, "gpus", NULL, "%d on each node; PCI lanes and errors only: \"dcgmi diag -r 1\" "
                    "looks at the rest", most);
    }
}

/* Marks first ranks with a text; the first of them. */
static int mark_texts(struct judge *j, size_t offset)
{
    int first = -1;
    judge_clear(j);
    for (int k = j->c->n_nodes - 1; k >= 0; k--) {
        const struct check_folder *f = &j->c->folder[j->c->first[k]];
        if (((const char *)f + offset)[0]) {
            j->node[k] = true;
            first = k;
        }
    }
    return first;
}

static double write_speed(const struct check_folder *f)
{
    return f->write_s > 0 ? (double)f->written_bytes / MIB / f->write_s : 0;
}

static bool say_folder_fault(struct judge *j)
{
    const struct check *c = j->c;
    int k = mark_texts(j, offsetof(struct check_folder, error));
    if (k >= 0) {
        judge_name(j);
        verdict_add(j->out, VERDICT_FAIL, "folder", "no checkpoint could be saved there: make it, make room, or take "
                    "another folder", "%s on %s: %s", c->dir, j->names, c->folder[c->first[k]].error);
        return true;
    }
    judge_clear(j);
    for (k = 0; k < c->n_nodes; k++)
        j->node[k] = c->folder[c->first[k]].is_other;
    if (judge_name(j) > 0) {
        verdict_add(j->out, VERDICT_FAIL, "folder", "take a folder that all nodes share", "%s on %s is not that of %s",
                    c->dir, j->names, judge_host(j, c->facts[0].node));
        return true;
    }
    return false;
}

void judge_folder(struct judge *j)
{
    const struct check *c = j->c;
    if (!c->dir || say_folder_fault(j))
        return;
    double *speed = calloc((size_t)c->n_nodes, sizeof *speed), median = 0, all = 0;
    for (int k = 0; speed && k < c->n_nodes; k++)
        all += speed[k] = write_speed(&c->folder[c->first[k]]);
    if (speed)
        median = stats_of(speed, (size_t)c->n_nodes).median;
    free(speed);
    const struct check_folder *f = &c->folder[c->first[c->facts[0].node]];
    char found[400], cure[400];
    snprintf(found, sizeof found, "%s: %.3g MiB/s (%.3g each node), %.1f GiB free", c->dir, all, median,
             (double)f->free_bytes / GIB);
    judge_clear(j);
    for (int k = 0; k < c->n_nodes; k++)
        j->node[k] = c->n_nodes > 2 && write_speed(&c->folder[c->first[k]]) < SLOW_WRITE * median;
    if (judge_name(j) > 0)
        judge_blame(j, verdict_add(j->out, VERDICT_WARN, "folder", judge_cure(j, cure, sizeof cure),
                                   "%s; slow on %s", found, j->names));
    else if (f->warning[0])
        verdict_add(j->out, VERDICT_WARN, "folder", "chmod o-w", "%s; %s", found, f->warning);
    else if ((double)f->free_bytes < GIB)
        verdict_add(j->out, VERDICT_WARN, "folder", "make room, or take another folder", "%s", found);
    else
        verdict_add(j->out, VERDICT_OK, "folder", NULL, "%s", found);
}
