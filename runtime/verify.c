#include "runtime/verify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/checksum.h"

enum {
    PIECES = VERIFY_TAIL / 2,
    PIECE_BITS = 64 / PIECES,
    PART_MIN = 1 << 16, /* bytes: what fits a cache is not worth a turn of its own */
};

struct part {
    size_t at, n;   /* bytes in the arena */
    size_t most;    /* of any part */
    uint64_t turns; /* in which all of it is seen */
};

static struct part part_of(const struct verify *v, const struct state *s, uint64_t turn)
{
    size_t all = s->layout.n_bytes, n = (all + (size_t)v->within - 1) / (size_t)v->within;
    n = layout_padded(n > PART_MIN ? n : PART_MIN);
    struct part p = {.most = n, .turns = all ? (all + n - 1) / n : 1};
    p.at = n * (size_t)(turn % p.turns);
    p.n = all - p.at < n ? all - p.at : n;
    return p;
}

/* Where the processor can read it. NULL: *errp says why not. */
static const void *read_part(struct verify *v, struct state *s, const struct part *p, ddp_error_t *errp)
{
    const char *from = (const char *)s->arena.values + p->at;
    if (!s->arena.device)
        return from;
    if (!v->buffer)
        v->buffer = malloc(p->most);
    if (!v->buffer) {
        error_errno(errp, "verify");
        return NULL;
    }
    return arena_read(&s->arena, v->buffer, from, p->n, errp) < 0 ? NULL : v->buffer;
}

static void note_step(struct verify *v, uint64_t step)
{
    if (step != v->next && step + 1 != v->next)
        v->since = step;
    v->next = step + 1;
}

int verify_fill(struct verify *v, struct state *s, double *tail, ddp_error_t *errp)
{
    memset(tail + TAIL_HASH, 0, VERIFY_TAIL * sizeof *tail);
    if (v->within == 0)
        return 0;
    struct part p = part_of(v, s, v->n_passes);
    const void *data = read_part(v, s, &p, errp);
    if (!data)
        return -1;
    v->n_passes++;
    note_step(v, s->optimizer.n_steps);
    v->hash = checksum_bytes(data, p.n);
    for (int i = 0; i < PIECES; i++) {
        double piece = (double)(v->hash >> i * PIECE_BITS & ((1u << PIECE_BITS) - 1));
        tail[TAIL_HASH + 2 * i] = piece;
        tail[TAIL_HASH + 2 * i + 1] = piece * piece;
    }
    return 0;
}

static bool is_alike(const double *tail, int n_ranks)
{
    for (int i = 0; i < PIECES; i++) {
        uint64_t sum = (uint64_t)tail[TAIL_HASH + 2 * i], squares = (uint64_t)tail[TAIL_HASH + 2 * i + 1];
        if (sum * sum != (uint64_t)n_ranks * squares)
            return false;
    }
    return true;
}

/* The hash that more than half of the ranks have, else rank 0's. By pairs of ranks that differ only a majority is left
 * over (Boyer and Moore, MJRTY, 1981). */
static uint64_t find_right(const uint64_t *hash, int n, bool *ret_is_majority)
{
    uint64_t left = hash[0];
    int n_left = 0, same = 0;
    for (int i = 0; i < n; i++) {
        if (n_left == 0)
            left = hash[i];
        n_left += hash[i] == left ? 1 : -1;
    }
    for (int i = 0; i < n; i++)
        same += hash[i] == left;
    *ret_is_majority = 2 * same > n;
    return *ret_is_majority ? left : hash[0];
}

/* "rank 3 (n2), rank 5 (n3) and 2 more" of those that have another hash. Returns how many these are. */
static int name_wrong(const struct team *t, const uint64_t *hash, uint64_t right, char *buf, size_t size)
{
    enum { NAMED = 3 };
    int n = 0;
    size_t len = 0;
    buf[0] = 0;
    for (int r = 0; r < t->me.size; r++) {
        char who[96];
        if (hash[r] == right || ++n > NAMED)
            continue;
        len += (size_t)snprintf(buf + len, size - len, "%s%s", n > 1 ? ", " : "",
                                world_rank_name(t->map, r, who, sizeof who));
    }
    if (n > NAMED)
        snprintf(buf + len, size - len, " and %d more", n - NAMED);
    return n;
}

static int explain(const struct team *t, const uint64_t *hash, uint64_t agreed, ddp_error_t *errp)
{
    bool is_majority;
    char wrong[320], who[96];
    uint64_t right = find_right(hash, t->me.size, &is_majority);
    int n = name_wrong(t, hash, right, wrong, sizeof wrong);
    if (is_majority)
        return error_set(errp, DDP_E_DATA, EILSEQ, "the parameters of %.80s are not those of the other %d ranks, as "
                         "after step %llu: bad memory or processor there (srun --exclude=), or it alone wrote to them",
                         wrong, t->me.size - n, (unsigned long long)agreed);
    return error_set(errp, DDP_E_DATA, EILSEQ, "the parameters of %.60s are not those of %.60s, as after step %llu: "
                     "bad memory or processor of one of them, or one alone wrote to them", wrong,
                     world_rank_name(t->map, 0, who, sizeof who), (unsigned long long)agreed);
}

/* The last step after which no part was found to differ. */
static uint64_t agreed(const struct verify *v, const struct state *s)
{
    uint64_t step = s->optimizer.n_steps, turns = part_of(v, s, 0).turns;
    return step >= v->since + turns ? step - turns : v->since;
}

int verify_check(struct verify *v, struct state *s, struct team *t, const double *tail, uint64_t *ret_agreed,
                 ddp_error_t *errp)
{
    if (is_alike(tail, t->me.size))
        return 0;
    *ret_agreed = agreed(v, s);
    uint64_t *hash = team_gather(t, &v->hash, sizeof v->hash, errp);
    if (hash)
        explain(t, hash, *ret_agreed, errp);
    free(hash);
    return -1;
}

static int hash_all(struct verify *v, struct state *s, ddp_error_t *errp)
{
    uint64_t turns = part_of(v, s, 0).turns;
    v->hash = 0;
    for (uint64_t i = 0; i < turns; i++) {
        struct part p = part_of(v, s, i);
        const void *data = read_part(v, s, &p, errp);
        if (!data)
            return -1;
        v->hash = v->hash * 31 + checksum_bytes(data, p.n);
    }
    return 0;
}

int verify_all(struct verify *v, struct state *s, struct team *t, uint64_t *ret_agreed, ddp_error_t *errp)
{
    uint64_t step = s->optimizer.n_steps;
    if (v->within == 0 || v->whole == step + 1)
        return 0;
    if (hash_all(v, s, errp) < 0)
        return team_fail(t, errp);
    uint64_t *hash = team_gather(t, &v->hash, sizeof v->hash, errp);
    if (!hash)
        return -1;
    int same = 1;
    while (same < t->me.size && hash[same] == hash[0])
        same++;
    note_step(v, step);
    v->whole = step + 1;
    if (same < t->me.size)
        explain(t, hash, *ret_agreed = agreed(v, s), errp);
    free(hash);
    return same < t->me.size ? -1 : 0;
}

void verify_close(struct verify *v)
{
    free(v->buffer);
}
