#include "runtime/ckpt/copy.h"

#include <string.h>

#include "runtime/ckpt/checksum.h"

struct copying {
    const struct copy_job *job;
    char *memory;
    uint64_t *sum;
};

/* Walks over the pieces, chunk by chunk: nothing more once the thread is to leave. */
struct walk {
    const struct snapshot_piece *piece;
    size_t at;
};
struct chunk {
    const struct writer_piece *piece;
    char *to;
    size_t at, n; /* in the piece */
};

static bool next_chunk(const struct copying *w, struct walk *k, struct chunk *ret)
{
    const struct snapshot_piece *end = w->job->plan->piece + w->job->plan->n_pieces;
    while (k->piece < end && k->at == k->piece->piece->n)
        *k = (struct walk){.piece = k->piece + 1};
    if (k->piece == end || atomic_load(w->job->is_leaving))
        return false;
    size_t left = k->piece->piece->n - k->at;
    *ret = (struct chunk){.piece = k->piece->piece, .to = w->memory + k->piece->offset + k->at, .at = k->at,
                          .n = left < WRITER_CHUNK_BYTES ? left : WRITER_CHUNK_BYTES};
    k->at += ret->n;
    return true;
}

static void take(const struct copying *w, const struct chunk *c, const void *from)
{
    w->sum[c->piece->tensor] += checksum_copy(c->to, from, c->n, (c->piece->at + c->at) / CKPT_BLOCK_BYTES);
}

static const char *place(const struct chunk *c)
{
    return (const char *)c->piece->from + c->at;
}

/* One chunk is summed up while the next one comes. */
static int copy_fetched(const struct copying *w, ddp_error_t *errp)
{
    const struct writer_source *s = w->job->source;
    struct walk k = {.piece = w->job->plan->piece};
    struct chunk c[2];
    const void *from;
    int slot = 0;
    bool has = next_chunk(w, &k, &c[0]);
    int rc = has ? s->fetch(s->ctx, 0, place(&c[0]), c[0].n, errp) : 0;
    while (has && rc == 0) {
        bool has_next = next_chunk(w, &k, &c[!slot]);
        if (has_next)
            rc = s->fetch(s->ctx, !slot, place(&c[!slot]), c[!slot].n, errp);
        from = s->fetched(s->ctx, slot, rc < 0 ? NULL : errp);
        if (from)
            take(w, &c[slot], from);
        else if (rc == 0 && has_next)
            s->fetched(s->ctx, !slot, NULL); /* of use to nobody, but then nothing is on its way */
        rc = from ? rc : -1;
        slot = !slot;
        has = has_next;
    }
    return rc;
}

int copy_pieces(const struct copy_job *job, char *memory, uint64_t *sum, ddp_error_t *errp)
{
    const struct copying w = {job, memory, sum};
    struct walk k = {.piece = job->plan->piece};
    struct chunk c;
    memset(sum, 0, job->n_tensors * sizeof *sum);
    if (job->source->fetch)
        return copy_fetched(&w, errp);
    while (next_chunk(&w, &k, &c))
        take(&w, &c, place(&c));
    return 0;
}
