/* notes.c - what deserves attention in a placement. */
#include <stdlib.h>

#include "topology/show/impl.h"

static bool shares_gpu(const struct show *s, const struct place *p)
{
    (void)s;
    return p->gpu >= 0 && p->n_gpu_sharing > 1;
}

static bool has_home(const struct show *s, const struct place *p)
{
    return p->gpu >= 0 && inventory_has_home(s->inventory, &s->inventory->gpu[p->gpu].pci);
}

static bool is_homeless(const struct show *s, const struct place *p)
{
    return p->gpu >= 0 && s->inventory->n_numas > 1 && !has_home(s, p);
}

static bool is_stranger(const struct show *s, const struct place *p)
{
    (void)s;
    return p->device >= 0 && p->gpu < 0;
}

static bool is_away(const struct show *s, const struct place *p)
{
    return p->n_near == 0 && p->n_cores && has_home(s, p);
}

static bool is_partly_away(const struct show *s, const struct place *p)
{
    return p->n_near && p->n_near < p->n_cores && has_home(s, p);
}

static bool is_crowded(const struct show *s, const struct place *p)
{
    (void)s;
    return p->n_sharing > 1;
}

static bool has_nothing(const struct show *s, const struct place *p)
{
    (void)s;
    return p->n_cores == 0;
}

enum whose { ANY, PLACED, KEPT }; /* masks, by whether they were free to change */

static const struct {
    bool (*about)(const struct show *s, const struct place *p);
    enum whose whose;
    const char *text, *cure;
} notes[] = {
    {has_nothing, ANY, "no CPU of this machine in the mask", "the inventory is another machine's?"},
    {shares_gpu, ANY, "another rank has the same GPU, which NCCL refuses", "ask for as many tasks per node as GPUs"},
    {is_stranger, ANY, "the GPU is not in the inventory", "placed as without one"},
    {is_homeless, ANY, "the machine does not tell where the GPU sits", "cores are an equal share"},
    {is_away, PLACED, "no core beside the GPU", "ask for cores near it, or for the whole node (--exclusive)"},
    {is_away, KEPT, "no core beside the GPU", "masks stay as they are"},
    {is_partly_away, PLACED, "only some of the cores are beside the GPU", "no more of those are left"},
    {is_partly_away, KEPT, "only some of the cores are beside the GPU", "masks stay as they are"},
    {is_crowded, PLACED, "more ranks than cores", "ask for a core per rank (--cpus-per-task)"},
    {is_crowded, KEPT, "other ranks may run on the same cores", "masks stay as they are"},
};

static bool is_about(size_t note, const struct show *s, const struct place *p)
{
    return (notes[note].whose == ANY || (notes[note].whose == KEPT) == (p->reason == PLACE_KEPT)) &&
           notes[note].about(s, p);
}

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
            any |= is_in[r] = is_about(i, s, &s->place[r]);
        if (!any)
            continue;
        text_add(t, "note: ");
        show_add_ranks(t, is_in, n);
        text_printf(t, ": %s: %s\n", notes[i].text, notes[i].cure);
    }
    free(is_in);
}
