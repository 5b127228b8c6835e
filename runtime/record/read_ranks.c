/* read_ranks.c - what each rank did, in a table that does not grow with the record. */
#include <stdlib.h>
#include <string.h>

#include "runtime/record/read_impl.h"

void record_ranks_clear(struct record_ranks *t)
{
    free(t->compute_s);
    free(t->exposed_s);
    free(t->memory_bytes);
    free(t->cell);
    *t = (struct record_ranks){0};
}

/* x[0..n_old), followed by zeros up to n. */
static double *longer(const double *x, int n_old, int n)
{
    double *new = calloc((size_t)n, sizeof *new);
    if (new && n_old)
        memcpy(new, x, (size_t)n_old * sizeof *new);
    return new;
}

int record_ranks_grow(struct record_ranks *t, int n)
{
    struct record_ranks new = *t;
    if (n <= t->n)
        return 0;
    new.n = n;
    new.compute_s = longer(t->compute_s, t->n, n);
    new.exposed_s = longer(t->exposed_s, t->n, n);
    new.memory_bytes = longer(t->memory_bytes, t->n, n);
    new.cell = calloc((size_t)n * RECORD_COLUMNS, sizeof *new.cell);
    if (!new.compute_s || !new.exposed_s || !new.memory_bytes || !new.cell) {
        record_ranks_clear(&new);
        return -1;
    }
    for (int c = 0; c < t->n_columns; c++)
        memcpy(new.cell + (size_t)c * (size_t)n, t->cell + (size_t)c * (size_t)t->n, (size_t)t->n * sizeof *t->cell);
    record_ranks_clear(t);
    *t = new;
    return 0;
}

/* Each two columns become one. */
static void halve(struct record_ranks *t)
{
    size_t n = (size_t)t->n;
    for (size_t c = 0; c < RECORD_COLUMNS / 2; c++) {
        struct record_column *a = &t->column[2 * c], *b = &t->column[2 * c + 1];
        for (size_t r = 0; r < n; r++)
            t->cell[c * n + r] = t->cell[2 * c * n + r] + t->cell[(2 * c + 1) * n + r];
        t->column[c] = (struct record_column){a->first < b->first ? a->first : b->first,
                                              a->last > b->last ? a->last : b->last};
    }
    memset(t->cell + RECORD_COLUMNS / 2 * n, 0, RECORD_COLUMNS / 2 * n * sizeof *t->cell);
    t->n_columns = RECORD_COLUMNS / 2;
    t->n_in_last = t->per_column *= 2;
}

static float *next_cells(struct record_ranks *t, uint64_t first, uint64_t last)
{
    if (t->n_columns == RECORD_COLUMNS && t->n_in_last == t->per_column)
        halve(t);
    if (t->n_columns == 0 || t->n_in_last == t->per_column) {
        t->per_column = t->per_column ? t->per_column : 1;
        t->n_in_last = 0;
        t->column[t->n_columns++] = (struct record_column){first, last};
    }
    struct record_column *c = &t->column[t->n_columns - 1];
    c->first = first < c->first ? first : c->first;
    c->last = last > c->last ? last : c->last;
    t->n_in_last++;
    return t->cell + (size_t)(t->n_columns - 1) * (size_t)t->n;
}

int record_ranks_add(struct record_ranks *t, int n, const double *compute_s, const double *exposed_s,
                     const double *memory_bytes, uint64_t step, uint64_t n_steps)
{
    if (record_ranks_grow(t, n) < 0)
        return -1;
    if (n != t->n_now) { /* who has been there for longer is not slower */
        memset(t->compute_s, 0, (size_t)t->n * sizeof *t->compute_s);
        memset(t->exposed_s, 0, (size_t)t->n * sizeof *t->exposed_s);
        t->n_now = n;
    }
    float *cell = compute_s ? next_cells(t, step - (n_steps < step ? n_steps : step), step) : NULL;
    for (int r = 0; r < n; r++) {
        if (compute_s) {
            t->compute_s[r] += compute_s[r];
            cell[r] += (float)compute_s[r];
        }
        if (exposed_s)
            t->exposed_s[r] += exposed_s[r];
        if (memory_bytes && memory_bytes[r] > t->memory_bytes[r])
            t->memory_bytes[r] = memory_bytes[r];
    }
    return 0;
}
