#include "runtime/save/foreign.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/checksum.h"
#include "runtime/save/save.h"

/* ---- memory that the processor reads and writes, over the communicator (arena.h) ---- */

static int write_in_place(void *ctx, void *to, const void *host, size_t n, ddp_error_t *errp)
{
    (void)ctx, (void)to, (void)host, (void)n, (void)errp;
    return 0;
}

static int bcast(void *ctx, void *at, size_t n, int root, ddp_error_t *errp)
{
    return comm_bcast(ctx, at, n, root, errp);
}

static void close_nothing(void *ctx)
{
    (void)ctx;
}

void foreign_open(struct save *save)
{
    static const struct arena_ops ops = {.write = write_in_place, .bcast = bcast, .close = close_nothing};
    save->state->arena = (struct arena){.ops = &ops, .ctx = save->team->comm};
    save->foreign.is_open = true;
}

void foreign_close(struct save *save)
{
    foreign_forget(save);
    save->foreign = (struct foreign){0};
}

/* ---- what is declared ---- */

int foreign_add(struct save *save, const struct foreign_tensor *t, ddp_error_t *errp)
{
    struct foreign *f = &save->foreign;
    if (st_check_name(t->t.name, errp) < 0)
        return -1;
    if (f->n == f->room) {
        size_t room = f->room ? 2 * f->room : 256;
        struct foreign_tensor *all = realloc(f->tensor, room * sizeof *all);
        if (!all)
            return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu tensors", room);
        f->tensor = all;
        f->room = room;
    }
    f->tensor[f->n] = *t;
    if (st_bytes(&t->t, &f->tensor[f->n].t.n_bytes) < 0)
        return error_set(errp, DDP_E_USAGE, EOVERFLOW, "tensor %.100s: its shape is not possible", t->t.name);
    f->n++;
    return 0;
}

void foreign_forget(struct save *save)
{
    struct foreign *f = &save->foreign;
    free(f->tensor);
    free(f->found.tensor);
    free(f->found.offset);
    free(f->found.block);
    free(f->found.text);
    *f = (struct foreign){.is_open = f->is_open, .planned = f->planned};
}

const void *foreign_find(const struct save *save, const char *name, size_t *ret_bytes)
{
    const struct foreign *f = &save->foreign;
    for (size_t i = 0; i < f->found.n; i++)
        if (!strcmp(f->found.tensor[i].t.name, name)) {
            *ret_bytes = (size_t)f->found.tensor[i].t.n_bytes;
            return f->found.block + f->found.offset[i];
        }
    return NULL;
}

uint64_t foreign_bytes(const struct save *save)
{
    uint64_t n = 0;
    for (size_t i = 0; i < save->foreign.n; i++)
        n += save->foreign.tensor[i].t.n_bytes;
    return n;
}

/* ---- saving ---- */

/* The groups of what is declared: their tensors in t[0..n), all of them, and group[0..result). */
static int list_groups(const struct foreign *f, struct st_tensor *t, struct files_group *group)
{
    int n_groups = 0;
    for (size_t i = 0; i < f->n; i++) {
        t[i] = f->tensor[i].t;
        if (i == 0 || strcmp(f->tensor[i].group, f->tensor[i - 1].group) != 0)
            group[n_groups++] = (struct files_group){f->tensor[i].group, &t[i], 0};
        group[n_groups - 1].n++;
    }
    return n_groups;
}

static int make_files(struct save *save, ddp_error_t *errp)
{
    const struct foreign *f = &save->foreign;
    struct st_tensor *t = calloc(f->n + 1, sizeof *t);
    struct files_group *group = calloc(f->n + 1, sizeof *group);
    int rc = -1;
    if (t && group)
        rc = files_make(&save->checkpoint.plan.files, group, list_groups(f, t, group),
                        (uint64_t)(save->config->ckpt_file_mb * (1 << 20)), errp);
    else
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the names of %zu tensors", f->n);
    free(t);
    free(group);
    return rc;
}

/* Adds the part of tensor i that this rank writes, or of it and those that follow where all ranks have them. Returns
 * how many that were; -1: error. */
static int share(struct save *save, size_t i, ddp_error_t *errp)
{
    const struct foreign *f = &save->foreign;
    struct split *split = &save->checkpoint.plan.split;
    const struct ddp_world *me = &save->team->me;
    if (f->tensor[i].owner >= 0) {
        const struct writer_piece p = {.tensor = i, .n = (size_t)f->tensor[i].t.n_bytes};
        return f->tensor[i].owner != me->rank || split_add(split, &p, errp) == 0 ? 1 : -1;
    }
    struct split_arena run = {.first = i};
    while (i + run.n < f->n && f->tensor[i + run.n].owner < 0)
        run.n++;
    return split_add_arena(split, &save->checkpoint.plan.files, &run, me->rank, me->size, errp) < 0 ? -1 : (int)run.n;
}

/* Of all that the ranks must declare alike. */
static uint64_t sum_declared(const struct foreign *f)
{
    uint64_t sum = f->n;
    for (size_t i = 0; i < f->n; i++) {
        const struct foreign_tensor *t = &f->tensor[i];
        uint64_t part[] = {sum, checksum_bytes(t->group, strlen(t->group)),
                           checksum_bytes(t->t.name, strlen(t->t.name)), t->t.dtype,
                           checksum_bytes(t->t.shape, (size_t)t->t.ndim * sizeof *t->t.shape), (uint64_t)t->owner};
        sum = checksum_bytes(part, sizeof part);
    }
    return sum;
}

int foreign_plan(struct save *save, ddp_error_t *errp)
{
    if (make_files(save, errp) < 0)
        return -1;
    for (size_t i = 0; i < save->foreign.n;) {
        int n = share(save, i, errp);
        if (n < 0)
            return -1;
        i += (size_t)n;
    }
    save->foreign.planned = sum_declared(&save->foreign);
    return 0;
}

int foreign_agree(struct save *save, bool *ret_is_stale, ddp_error_t *errp)
{
    uint64_t mine = sum_declared(&save->foreign);
    int64_t sum = (int64_t)mine, v[] = {mine != save->foreign.planned, sum, ~sum};
    if (comm_allreduce(save->team->comm, v, sizeof v / sizeof *v, DDP_I64, DDP_MAX, errp) < 0)
        return team_break(save->team);
    if (v[1] != ~v[2])
        return error_set(errp, DDP_E_LAYOUT, EINVAL, "ranks save different tensors: all have to declare the same, with "
                         "the same types and shapes, in one order");
    *ret_is_stale = v[0] > 0;
    return 0;
}

int foreign_point(struct save *save, const char *text, ddp_error_t *errp)
{
    struct checkpoint_plan *plan = &save->checkpoint.plan;
    for (struct writer_piece *p = plan->split.piece; p < plan->split.piece + plan->split.n; p++)
        p->from = (const char *)save->foreign.tensor[p->tensor].data + p->at;
    return files_attach(&plan->files, FOREIGN_TEXT_NAME, text, errp);
}
