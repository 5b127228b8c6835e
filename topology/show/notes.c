/* notes.c - what deserves attention in a placement. */
#include <stdlib.h>
#include <string.h>

#include "topology/show/impl.h"

/* Which ranks a sentence is about. */
typedef bool (*about_f)(const struct show *s, const struct place *p);

static bool shares_gpu(const struct show *s, const struct place *p)
{
    (void)s;
    return p->gpu >= 0 && p->n_gpu_sharing > 1;
}

static bool is_homeless(const struct show *s, const struct place *p)
{
    return p->gpu >= 0 && s->inventory->n_numas > 1 && !show_has_home(s->inventory, p->gpu);
}

static bool is_stranger(const struct show *s, const struct place *p)
{
    (void)s;
    return p->device >= 0 && p->gpu < 0;
}

static bool is_away(const struct show *s, const struct place *p)
{
    return p->gpu >= 0 && p->n_near == 0 && p->n_cores && show_has_home(s->inventory, p->gpu);
}

static bool is_far(const struct show *s, const struct place *p)
{
    return p->reason != PLACE_KEPT && is_away(s, p);
}

static bool is_far_kept(const struct show *s, const struct place *p)
{
    return p->reason == PLACE_KEPT && is_away(s, p);
}

static bool is_partly_away(const struct show *s, const struct place *p)
{
    return p->gpu >= 0 && p->n_near && p->n_near < p->n_cores && show_has_home(s->inventory, p->gpu);
}

static bool is_half_far(const struct show *s, const struct place *p)
{
    return p->reason != PLACE_KEPT && is_partly_away(s, p);
}

static bool is_half_far_kept(const struct show *s, const struct place *p)
{
    return p->reason == PLACE_KEPT && is_partly_away(s, p);
}

static bool is_crowded(const struct show *s, const struct place *p)
{
    (void)s;
    return p->reason != PLACE_KEPT && p->n_sharing > 1;
}

static bool is_crowded_kept(const struct show *s, const struct place *p)
{
    (void)s;
    return p->reason == PLACE_KEPT && p->n_sharing > 1;
}

static bool has_nothing(const struct show *s, const struct place *p)
{
    (void)s;
    return p->n_cores == 0;
}

static const struct {
    about_f about;
    const char *text, *cure;
} notes[] = {
    {has_nothing, "no CPU of this machine in the mask", "the inventory is another machine's?"},
    {shares_gpu, "another rank has the same GPU, which NCCL refuses", "ask for as many tasks per node as GPUs"},
    {is_stranger, "the GPU is not in the inventory", "placed as without one"},
    {is_homeless, "the machine does not tell where the GPU sits", "cores are an equal share"},
    {is_far, "no core beside the GPU", "ask for cores near it, or for the whole node (--exclusive)"},
    {is_far_kept, "no core beside the GPU", "masks stay as they are"},
    {is_half_far, "only some of the cores are beside the GPU", "no more of those are left"},
    {is_half_far_kept, "only some of the cores are beside the GPU", "masks stay as they are"},
    {is_crowded, "more ranks than cores", "ask for a core per rank (--cpus-per-task)"},
    {is_crowded_kept, "other ranks may run on the same cores", "masks stay as they are"},
};

void show_add_notes(struct text *t, const struct show *s)
{
    int n = s->request->n_ranks;
    bool *is_in = calloc((size_t)n, sizeof *is_in);
    if (!is_in) {
        t->is_lost = true;
        return;
    }
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        bool any = false;
        for (int r = 0; r < n; r++)
            any |= is_in[r] = notes[i].about(s, &s->place[r]);
        if (!any)
            continue;
        text_add(t, "note: ");
        show_add_ranks(t, is_in, n);
        text_printf(t, ": %s: %s\n", notes[i].text, notes[i].cure);
    }
    free(is_in);
}
