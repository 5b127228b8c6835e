#include <string.h>

#include "t/lib/ref_impl.h"

enum { SEATS = 512 };

typedef bool flags[CORES];

struct table {
    int n, rank[RANKS], n_seats, core[SEATS], owner[SEATS], need[RANKS];
    int m; /* cores */
};

static bool same_region(const struct table *t, const bool *a, const bool *b)
{
    for (int s = 0; s < t->n_seats; s++)
        if (a[t->core[s]] != b[t->core[s]])
            return false;
    return true;
}

/* round 0: home, 1: package, 2: all. false: this rank has no such region. */
static bool region_of(const struct ref *f, int rank, int round, flags ret)
{
    int gpu = ref_gpu_of(f, rank);
    for (int c = 0; c < (int)f->inv->n_cores; c++)
        ret[c] =
            round == 2 || (gpu >= 0 && (round == 0 ? ref_in_home(f->inv, gpu, c) : ref_in_package(f->inv, gpu, c)));
    return round == 2 || ref_has_home(f->inv, gpu);
}

static void lay_out(const struct ref *f, int pool, struct table *t)
{
    int cores[CORES];
    memset(t, 0, sizeof *t);
    for (int r = 0; r < f->n; r++)
        if (f->pool_of[r] == pool)
            t->rank[t->n++] = r;
    for (int c = 0; c < (int)f->inv->n_cores; c++)
        if (f->in_pool[pool][c])
            cores[t->m++] = c;
    for (int j = 0; j < t->m; j++) {
        int seats = 0;
        for (int i = 0; i < t->n; i++)
            seats += i * t->m / t->n == j;
        if (t->m >= t->n)
            seats = 1;
        for (; seats > 0; seats--) {
            t->owner[t->n_seats] = -1;
            t->core[t->n_seats++] = cores[j];
        }
    }
}

/* Section 3's condition, for rank number i. */
static bool home_can_spare(const struct ref *f, const struct table *t, int i)
{
    flags mine, other;
    int in_pool = 0, promised = 0;
    if (!region_of(f, t->rank[i], 0, mine))
        return false;
    for (int s = 0; s < t->n_seats; s++)
        in_pool += mine[t->core[s]];
    for (int k = 0; k < t->n; k++)
        if (region_of(f, t->rank[k], 0, other) && same_region(t, mine, other))
            promised += t->need[k];
    return in_pool > promised;
}

static void set_needs(const struct ref *f, struct table *t)
{
    bool any_home = false;
    for (int i = 0; i < t->n; i++)
        any_home |= ref_has_home(f->inv, ref_gpu_of(f, t->rank[i]));
    for (int i = 0; i < t->n; i++) {
        t->need[i] = t->m / t->n;
        if (!any_home)
            t->need[i] = (i + 1) * t->m / t->n - i * t->m / t->n;
        if (t->m < t->n)
            t->need[i] = 1;
    }
    int extra = any_home && t->m >= t->n ? t->m % t->n : 0;
    for (int i = 0; i < t->n; i++)
        if (extra > 0 && home_can_spare(f, t, i)) {
            t->need[i]++;
            extra--;
        }
    for (int i = 0; i < t->n; i++)
        if (extra > 0 && t->need[i] == t->m / t->n) {
            t->need[i]++;
            extra--;
        }
}

static void serve_group(struct table *t, const bool *is_member, const bool *region)
{
    int deal[RANKS] = {0}, n_free = 0;
    for (int s = 0; s < t->n_seats; s++)
        n_free += t->owner[s] < 0 && region[t->core[s]];
    for (int turn = 0; turn < SEATS; turn++)
        for (int i = 0; i < t->n; i++)
            if (is_member[i] && deal[i] < t->need[i] && n_free > 0) {
                deal[i]++;
                n_free--;
            }
    for (int i = 0; i < t->n; i++)
        for (int s = 0; s < t->n_seats && deal[i] > 0; s++)
            if (t->owner[s] < 0 && region[t->core[s]]) {
                t->owner[s] = i;
                t->need[i]--;
                deal[i]--;
            }
}

static void play_round(const struct ref *f, struct table *t, int round)
{
    bool is_done[RANKS] = {false};
    for (int i = 0; i < t->n; i++) {
        flags mine, other;
        bool is_member[RANKS] = {false};
        if (is_done[i] || t->need[i] == 0 || !region_of(f, t->rank[i], round, mine))
            continue;
        for (int k = i; k < t->n; k++)
            if (t->need[k] > 0 && region_of(f, t->rank[k], round, other) && same_region(t, mine, other))
                is_member[k] = is_done[k] = true;
        serve_group(t, is_member, mine);
    }
}

void ref_deal(const struct ref *f, int pool, bool *ret_owner)
{
    struct table t;
    lay_out(f, pool, &t);
    set_needs(f, &t);
    for (int round = 0; round < 3; round++)
        play_round(f, &t, round);
    for (int s = 0; s < t.n_seats; s++)
        ret_owner[t.core[s] * RANKS + t.rank[t.owner[s]]] = true;
}
