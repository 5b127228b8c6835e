#include "runtime/save/split.h"

#include <errno.h>
#include <stdlib.h>

#include "runtime/ckpt/checksum.h"

static uint64_t n_blocks(const struct files *f, size_t tensor)
{
    return (f->tensor[tensor].t.n_bytes + CKPT_BLOCK_BYTES - 1) / CKPT_BLOCK_BYTES;
}

int split_add(struct split *s, const struct writer_piece *p, ddp_error_t *errp)
{
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        struct writer_piece *all = realloc(s->piece, room * sizeof *all);
        if (!all)
            return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu pieces of a checkpoint", room);
        s->piece = all;
        s->room = room;
    }
    s->piece[s->n++] = *p;
    return 0;
}

void split_clear(struct split *s)
{
    free(s->piece);
    *s = (struct split){0};
}

/* Walks over rank's part: blocks [first, end) of the arena's. */
struct walk {
    const struct files *files;
    const struct split_arena *arena;
    uint64_t first, end, at; /* blocks; at: of tensor i's first */
    size_t i;
};

static struct walk walk(const struct files *f, const struct split_arena *a, int rank, int n_ranks)
{
    uint64_t all = 0, r = (uint64_t)rank, n = (uint64_t)n_ranks;
    for (size_t i = 0; i < a->n; i++)
        all += n_blocks(f, a->first + i);
    return (struct walk){f, a, all / n * r + all % n * r / n, all / n * (r + 1) + all % n * (r + 1) / n, 0, 0};
}

static bool next(struct walk *w, struct writer_piece *ret)
{
    for (; w->i < w->arena->n && w->at < w->end; w->i++) {
        size_t tensor = w->arena->first + w->i;
        uint64_t size = w->files->tensor[tensor].t.n_bytes, blocks = n_blocks(w->files, tensor);
        uint64_t from = w->first > w->at ? w->first - w->at : 0, to = w->end - w->at < blocks ? w->end - w->at : blocks;
        w->at += blocks;
        if (from >= to)
            continue;
        uint64_t at = from * CKPT_BLOCK_BYTES, end = to == blocks ? size : to * CKPT_BLOCK_BYTES;
        const char *base = w->arena->base ? w->arena->base + w->arena->offset[w->i] + at : NULL;
        *ret = (struct writer_piece){base, tensor, at, (size_t)(end - at)};
        w->i++;
        return true;
    }
    return false;
}

int split_add_arena(struct split *s, const struct files *f, const struct split_arena *a, int rank, int n_ranks,
                    ddp_error_t *errp)
{
    struct writer_piece p;
    for (struct walk w = walk(f, a, rank, n_ranks); next(&w, &p);)
        if (split_add(s, &p, errp) < 0)
            return -1;
    return 0;
}

void split_span(const struct files *f, const struct split_arena *a, int rank, int n_ranks, size_t *ret_at,
                size_t *ret_n)
{
    struct writer_piece p;
    *ret_at = *ret_n = 0;
    for (struct walk w = walk(f, a, rank, n_ranks); next(&w, &p);) {
        size_t at = (size_t)((const char *)p.from - a->base);
        if (*ret_n == 0)
            *ret_at = at;
        *ret_n = at + p.n - *ret_at;
    }
}
