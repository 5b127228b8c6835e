#include "topology/matching.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "topology/inventory.h"

enum {
    N = INVENTORY_GPUS_MAX + 1, /* nodes: the devices, and after them the one that stands for free seats */
    NEVER = 1 << 28,
    MUST = 1 << 20 /* what filling a seat that must be filled saves: more than any sum of costs along a path */
};

/* Ranks sit on devices. What holds between any two ranks' turns: no way of moving seated ranks that are not fixed yet
 * lowers the sum, so a shortest path for one more rank leaves the sum the least for all who sit. */
struct seating {
    const struct matching *m;
    int *device; /* [n_ranks]; -1: does not sit */
    int n_fixed; /* ranks below it stay where they are */
    int count[N];
    int n_moves[N][N][2 * MATCHING_COST_MAX + 1]; /* [from][to][change of cost + MATCHING_COST_MAX] ranks */
    int change[N][N]; /* the least change of cost; NEVER: nobody can move. From the last node: what it costs that the
                         device has one rank less, to it: one more */
    int dist[N], next[N]; /* to where a path has to end: its cost, its first step */
};

static int cost(const struct seating *s, int rank, int device)
{
    return s->m->cost[(size_t)rank * (size_t)s->m->n_devices + (size_t)device];
}

static int least_change(const int *n_moves)
{
    for (int i = 0; i <= 2 * MATCHING_COST_MAX; i++)
        if (n_moves[i] > 0)
            return i - MATCHING_COST_MAX;
    return NEVER;
}

static int cost_of_seat(const struct seating *s, int number)
{
    if (number < 0 || number >= s->m->at_most)
        return NEVER;
    return number < s->m->at_least ? -MUST : 0;
}

static void count_seat(struct seating *s, int device, int by)
{
    int end = s->m->n_devices;
    s->count[device] += by;
    s->change[device][end] = cost_of_seat(s, s->count[device]);
    s->change[end][device] = s->count[device] > 0 ? -cost_of_seat(s, s->count[device] - 1) : NEVER;
}

/* by: 1 the rank can move from there, -1 it no longer can. */
static void count_moves(struct seating *s, int rank, int device, int by)
{
    for (int to = 0; to < s->m->n_devices; to++) {
        int *n_moves = s->n_moves[device][to];
        n_moves[cost(s, rank, to) - cost(s, rank, device) + MATCHING_COST_MAX] += by;
        s->change[device][to] = least_change(n_moves);
    }
}

static void sit_down(struct seating *s, int rank, int device)
{
    s->device[rank] = device;
    count_seat(s, device, 1);
    if (rank >= s->n_fixed)
        count_moves(s, rank, device, 1);
}

static void stand_up(struct seating *s, int rank)
{
    count_seat(s, s->device[rank], -1);
    count_moves(s, rank, s->device[rank], -1);
    s->device[rank] = -1;
}

/* Bellman and Ford: changes may be negative, circles of them are not. */
static void find_paths(struct seating *s, int target)
{
    int n_nodes = s->m->n_devices + 1;
    for (int a = 0; a < n_nodes; a++)
        s->dist[a] = a == target ? 0 : NEVER;
    for (bool again = true; again;) {
        again = false;
        for (int a = 0; a < n_nodes; a++)
            for (int b = 0; b < n_nodes; b++)
                if (s->change[a][b] < NEVER && s->dist[b] < NEVER && s->change[a][b] + s->dist[b] < s->dist[a]) {
                    s->dist[a] = s->change[a][b] + s->dist[b];
                    s->next[a] = b;
                    again = true;
                }
    }
}

/* The cheapest device for this rank, all told; of equals the first from its own number on. */
static int best_device(const struct seating *s, int rank)
{
    int n = s->m->n_devices, best = -1, least = NEVER;
    for (int i = 0; i < n; i++) {
        int d = (rank + i) % n;
        if (s->dist[d] < NEVER && cost(s, rank, d) + s->dist[d] < least) {
            least = cost(s, rank, d) + s->dist[d];
            best = d;
        }
    }
    return best;
}

static int who_moves(const struct seating *s, int from, int to)
{
    for (int r = s->n_fixed; r < s->m->n_ranks; r++)
        if (s->device[r] == from && cost(s, r, to) - cost(s, r, from) == s->change[from][to])
            return r;
    return -1;
}

/* The rank sits down on `at`; along the path to the target each makes room for the one before. */
static void follow_path(struct seating *s, int rank, int at, int target)
{
    int end = s->m->n_devices;
    for (int to; at != target; at = to) {
        to = s->next[at];
        int mover = at == end || to == end ? -1 : who_moves(s, at, to);
        if (mover >= 0)
            stand_up(s, mover);
        if (rank >= 0)
            sit_down(s, rank, at);
        rank = mover;
    }
    if (rank >= 0)
        sit_down(s, rank, target);
}

static void seat_all(struct seating *s)
{
    int end = s->m->n_devices;
    for (int r = 0; r < s->m->n_ranks; r++) {
        find_paths(s, end);
        follow_path(s, r, best_device(s, r), end);
    }
}

/* The sum is the least now. In order each rank leaves its seat for the best device from which a path leads to that seat
 * and keeps the sum, and stays there. */
static void fix_all(struct seating *s)
{
    for (int r = 0; r < s->m->n_ranks; r++) {
        int seat = s->device[r];
        count_moves(s, r, seat, -1);
        s->device[r] = -1;
        s->n_fixed = r + 1;
        find_paths(s, seat);
        count_seat(s, seat, -1);
        follow_path(s, r, best_device(s, r), seat);
    }
}

int matching_choose(const struct matching *m, int *ret_device, ddp_error_t *errp)
{
    struct seating *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory to choose GPUs for %d ranks", m->n_ranks);
    s->m = m;
    s->device = ret_device;
    for (int a = 0; a <= m->n_devices; a++)
        for (int b = 0; b <= m->n_devices; b++)
            s->change[a][b] = NEVER;
    for (int d = 0; d < m->n_devices; d++)
        count_seat(s, d, 0);
    for (int r = 0; r < m->n_ranks; r++)
        ret_device[r] = -1;
    seat_all(s);
    fix_all(s);
    free(s);
    return 0;
}
