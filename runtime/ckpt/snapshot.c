#include "runtime/ckpt/snapshot.h"

#include <errno.h>
#include <stdlib.h>

static int by_place(const void *a, const void *b)
{
    const struct writer_piece *p = ((const struct snapshot_piece *)a)->piece;
    const struct writer_piece *q = ((const struct snapshot_piece *)b)->piece;
    if (p->tensor != q->tensor)
        return p->tensor < q->tensor ? -1 : 1;
    return p->at < q->at ? -1 : p->at > q->at;
}

/* Tensors lie in the files in the order of their numbers. */
static void lay_out(struct snapshot *s, const struct files *f)
{
    for (size_t i = 0; i < s->n_pieces; i++) {
        const struct writer_piece *p = s->piece[i].piece;
        const struct files_tensor *t = &f->tensor[p->tensor];
        struct snapshot_run *last = s->n_runs ? &s->run[s->n_runs - 1] : NULL;
        uint64_t at = t->at_bytes + p->at;
        if (p->n == 0)
            continue;
        if (!last || last->file != t->file || last->at + last->n != at) {
            size_t base = (s->n_bytes + SNAPSHOT_ALIGN - 1) / SNAPSHOT_ALIGN * SNAPSHOT_ALIGN;
            last = &s->run[s->n_runs++];
            *last = (struct snapshot_run){.file = t->file, .at = at, .offset = base + at % SNAPSHOT_ALIGN};
        }
        s->piece[i].offset = last->offset + last->n;
        last->n += p->n;
        s->n_bytes = last->offset + last->n;
        s->data_bytes += p->n;
    }
}

int snapshot_plan(struct snapshot *ret, const struct files *f, const struct writer_piece *piece, size_t n,
                  ddp_error_t *errp)
{
    struct snapshot s = {.n_pieces = n};
    s.piece = calloc(n + 1, sizeof *s.piece);
    s.run = calloc(n + 1, sizeof *s.run);
    if (!s.piece || !s.run) {
        snapshot_clear(&s);
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu pieces of a checkpoint", n);
    }
    for (size_t i = 0; i < n; i++)
        s.piece[i].piece = &piece[i];
    qsort(s.piece, n, sizeof *s.piece, by_place);
    lay_out(&s, f);
    *ret = s;
    return 0;
}

void snapshot_clear(struct snapshot *s)
{
    free(s->piece);
    free(s->run);
    *s = (struct snapshot){0};
}
