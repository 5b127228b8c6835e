#include "runtime/grads/planner.h"

#include <stdlib.h>
#include <string.h>

/* With so few buckets, more are not worth a search for the fewest. */
#define FEW 64
#define EQUAL (1 + 1e-9)

struct planner_model planner_fit(const size_t *bytes, const double *seconds, int n)
{
    double mean_x = 0, mean_t = 0, xx = 0, xt = 0, w = 0, wt = 0;
    for (int i = 0; i < n; i++) {
        mean_x += (double)bytes[i] / n;
        mean_t += seconds[i] / n;
    }
    for (int i = 0; i < n; i++) {
        double x = (double)bytes[i] - mean_x;
        xx += x * x;
        xt += x * (seconds[i] - mean_t);
    }
    double beta = xx > 0 && xt > 0 ? xt / xx : 0;
    for (int i = 0; i < n; i++) {
        w += 1 / (seconds[i] * seconds[i]);
        wt += (seconds[i] - beta * (double)bytes[i]) / (seconds[i] * seconds[i]);
    }
    return (struct planner_model){wt > 0 ? wt / w : 0, beta};
}

static double max(double a, double b)
{
    return a > b ? a : b;
}

/* Neighbours put together: atom k ends before position last[k], ready when all of it is, and all before. */
struct atoms {
    int n;
    int last[PLANNER_MAX];
    double ready_s[PLANNER_MAX];
    double upto[PLANNER_MAX + 1]; /* bytes of the atoms before k */
};

static void put_together(struct atoms *a, const double *ready_s, const size_t *bytes, int n)
{
    double total = 0, held = 0, ready = 0, least = 0;
    for (int i = 0; i < n; i++)
        total += (double)bytes[i];
    if (n > PLANNER_MAX)
        least = total / (PLANNER_MAX - 1);
    a->n = 0;
    a->upto[0] = 0;
    for (int i = 0; i < n; i++) {
        held += (double)bytes[i];
        ready = max(ready, ready_s[i]);
        if (held - a->upto[a->n] < least && i + 1 < n)
            continue;
        a->last[a->n] = i + 1;
        a->ready_s[a->n] = ready;
        a->upto[++a->n] = held;
    }
}

/* The best end of atoms [0, j) when the last bucket begins at some i in [from, j) and before[i] is the end of [0, i).
 * *ret_i: where. */
static double best(const struct planner_model *m, const struct atoms *a, const double *before, int from, int j,
                   int *ret_i)
{
    double least = 0;
    *ret_i = -1;
    for (int i = from; i < j; i++) {
        double t = max(before[i], a->ready_s[j - 1]) + m->alpha_s + m->beta_s_per_byte * (a->upto[j] - a->upto[i]);
        if (*ret_i < 0 || t < least) {
            least = t;
            *ret_i = i;
        }
    }
    return least;
}

/* Fills cut with the positions (in atoms) where buckets end, from the last to the first; returns how many. */
static int any_number(const struct planner_model *m, const struct atoms *a, double *end_s, int *came_from, int *cut)
{
    int n = 0;
    end_s[0] = 0;
    for (int j = 1; j <= a->n; j++)
        end_s[j] = best(m, a, end_s, 0, j, &came_from[j]);
    for (int j = a->n; j > 0; j = came_from[j])
        cut[n++] = j;
    return n;
}

/* The fewest buckets, below `limit`, that end by goal_s: row k of end_s is the best end with exactly k buckets. Returns
 * 0 if there are none. */
static int fewest(const struct planner_model *m, const struct atoms *a, double *end_s, int *came_from, double goal_s,
                  int limit, int *cut)
{
    size_t row = (size_t)a->n + 1;
    for (int j = 1; j <= a->n; j++) {
        end_s[row + (size_t)j] = a->ready_s[j - 1] + m->alpha_s + m->beta_s_per_byte * a->upto[j];
        came_from[row + (size_t)j] = 0;
    }
    for (int k = 1; k < limit; k++) {
        double *now = end_s + (size_t)k * row;
        for (int j = k; k > 1 && j <= a->n; j++)
            now[j] = best(m, a, now - row, k - 1, j, &came_from[(size_t)k * row + (size_t)j]);
        if (now[a->n] > goal_s)
            continue;
        for (int b = k, j = a->n; b > 0; j = came_from[(size_t)b * row + (size_t)j], b--)
            cut[k - b] = j;
        return k;
    }
    return 0;
}

int planner_cut(const struct planner_model *m, const double *ready_s, const size_t *bytes, int n, int *end)
{
    if (n == 0)
        return 0;
    struct atoms *a = malloc(sizeof *a);
    size_t room = ((size_t)(n < PLANNER_MAX ? n : PLANNER_MAX) + 1) * (FEW + 1);
    double *end_s = malloc(room * sizeof *end_s);
    int *came_from = malloc(room * sizeof *came_from), *cut = malloc(room * sizeof *cut), k = -1;
    if (a && end_s && came_from && cut) {
        put_together(a, ready_s, bytes, n);
        k = any_number(m, a, end_s, came_from, cut);
        double goal_s = end_s[a->n] * EQUAL;
        int fewer = fewest(m, a, end_s, came_from, goal_s, k < FEW ? k : FEW, cut + k);
        memmove(cut, fewer ? cut + k : cut, (size_t)(fewer ? fewer : k) * sizeof *cut);
        k = fewer ? fewer : k;
        for (int b = 0; b < k; b++)
            end[b] = a->last[cut[k - 1 - b] - 1];
    }
    free(a);
    free(end_s);
    free(came_from);
    free(cut);
    return k;
}
