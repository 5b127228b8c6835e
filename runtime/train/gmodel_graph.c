/* gmodel_graph.c - the parts of a pass as CUDA graphs: one launch instead of one for each kernel.
 *
 * A graph holds the arguments of its kernels, so that it serves for passes that have the same: memory is where it is
 * for the model's life; what changes is a key. The first pass with a key is queued kernel by kernel, so that cuBLASLt's
 * choices and the loading of kernels are no part of a capture; the second one is captured and launched, all others are
 * launched. A capture does nothing on the GPU: where it or a launch fails, the part is queued as it is, and graphs are
 * off from there on, unless the GPU is lost. The factor of gradients is an argument, too: a loss scale that changes has
 * one part captured again.
 *
 * Graphs for WAYS keys are kept for each part: both uploads, with the usual number of samples and with that of an
 * epoch's end or of validation's last group. The one that was used longest ago makes room. It is not at work any more:
 * the host has since waited for losses of a pass behind it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/train/gmodel_impl.h"

#define WAYS 4

struct key {
    int turn;
    size_t n;
    float grad_scale;
};

struct way {
    struct key key;
    uint64_t used;         /* when last; 0: never */
    device_graph_t *graph; /* NULL: it was queued once, as it is */
};

struct graph_slot {
    struct way way[WAYS];
};

static size_t n_parts(const gmodel_t *m)
{
    return PART_BLOCK + m->c.model.layers;
}

int graphs_create(gmodel_t *m, ddp_error_t *errp)
{
    if (!m->c.has_graphs)
        return 0;
    m->graphs = calloc(n_parts(m), sizeof *m->graphs);
    if (!m->graphs)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu graphs", n_parts(m) * WAYS);
    return 0;
}

void graphs_destroy(gmodel_t *m)
{
    for (size_t i = 0; m->graphs && i < n_parts(m); i++)
        for (int k = 0; k < WAYS; k++)
            device_graph_destroy(m->graphs[i].way[k].graph);
    free(m->graphs);
    m->graphs = NULL;
}

bool graphs_are_on(const gmodel_t *m)
{
    return m->graphs && !m->graphs_are_off;
}

/* Blocks read no tokens, and the losses' gradients alone are scaled: the rest follows from those. */
static struct key key_of(const gmodel_t *m, size_t part, const struct pass *p)
{
    return (struct key){.turn = part < PART_BLOCK ? m->turn : 0,
                        .n = p->n,
                        .grad_scale = part == PART_LOSSES ? p->grad_scale : 0};
}

static bool is_same(const struct key *a, const struct key *b)
{
    return a->turn == b->turn && a->n == b->n && a->grad_scale == b->grad_scale;
}

/* The key's place, or the one that it gets, empty. */
static struct way *way_of(gmodel_t *m, size_t part, const struct key *key)
{
    struct way *oldest = m->graphs[part].way;
    for (struct way *w = oldest; w < m->graphs[part].way + WAYS; w++) {
        if (w->used && is_same(&w->key, key))
            return w;
        oldest = w->used < oldest->used ? w : oldest;
    }
    device_graph_destroy(oldest->graph);
    *oldest = (struct way){.key = *key};
    return oldest;
}

/* The capture ends, whatever fails in it: the stream is not to keep what comes after. */
static void capture(gmodel_t *m, struct way *w, const struct pass *p,
                    void (*queue)(gmodel_t *m, const struct pass *p))
{
    ddp_error_t e;
    if (device_capture_begin(m->stream, &m->error) < 0) {
        m->failed = true;
        return;
    }
    queue(m, p);
    w->graph = device_capture_end(m->stream, &e);
    if (m->failed) {
        device_graph_destroy(w->graph);
        w->graph = NULL;
    } else if (!w->graph) {
        m->error = e;
        m->failed = true;
    }
}

static void give_up(gmodel_t *m)
{
    char text[sizeof m->error.text + 64];
    snprintf(text, sizeof text, "CUDA graphs are off from here on: %s", m->error.text);
    m->graphs_are_off = true;
    m->failed = false;
    if (m->c.warn)
        m->c.warn(m->c.warn_ctx, text);
}

void graphs_queue(gmodel_t *m, size_t part, const struct pass *p, void (*queue)(gmodel_t *m, const struct pass *p))
{
    if (m->failed)
        return;
    if (!graphs_are_on(m)) {
        queue(m, p);
        return;
    }
    struct key key = key_of(m, part, p);
    struct way *w = way_of(m, part, &key);
    bool is_first = !w->used;
    w->used = ++m->n_graph_uses;
    if (is_first) {
        queue(m, p);
        return;
    }
    if (!w->graph)
        capture(m, w, p, queue);
    if (!m->failed && device_graph_launch(w->graph, m->stream, &m->error) < 0)
        m->failed = true;
    if (m->failed && !device_is_broken(m->device)) {
        give_up(m);
        queue(m, p);
    }
}
