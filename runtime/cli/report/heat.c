/* heat.c - what each rank computed, over the median rank, step by step. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/stats.h"
#include "runtime/cli/report/report.h"

#define ROWS_MAX 64
#define COLUMNS_MAX 128 /* half of RECORD_COLUMNS */

/* From the median on; the least is "faster". */
static const struct level {
    double from;
    const char *colour, *text;
} level[] = {
    {0, "fast", "below 0.95"}, {0.95, "even", "to 1.05 times the median"}, {1.05, "h1", "to 1.1"},
    {1.1, "h2", "to 1.2"},     {1.2, "h3", "to 1.5"},                      {1.5, "h4", "above"},
};
#define LEVELS (int)(sizeof level / sizeof *level)

struct heat {
    int n_rows, n_columns, per_row; /* ranks in a row */
    struct record_column column[COLUMNS_MAX];
    signed char cell[ROWS_MAX][COLUMNS_MAX]; /* a level; -1: nothing */
};

static int level_of(double ratio)
{
    int i = LEVELS - 1;
    while (i > 0 && ratio < level[i].from)
        i--;
    return i;
}

/* x[0..n_ranks): seconds of the ranks in columns a to b. */
static void add_up(const struct record_ranks *t, int a, int b, double *x)
{
    memset(x, 0, (size_t)t->n * sizeof *x);
    for (int c = a; c < b; c++)
        for (int r = 0; r < t->n; r++)
            x[r] += (double)t->cell[(size_t)c * (size_t)t->n + (size_t)r];
}

/* Of the ranks that computed. */
static double median_of(const double *x, int n, double *sorted)
{
    size_t m = 0;
    for (int r = 0; r < n; r++)
        if (x[r] > 0)
            sorted[m++] = x[r];
    if (m == 0)
        return 0;
    stats_of(sorted, m);
    return sorted[(m - 1) / 2];
}

/* false: no memory. */
static bool fill(struct heat *h, const struct record_ranks *t)
{
    int per_column = (t->n_columns + COLUMNS_MAX - 1) / COLUMNS_MAX;
    double *x = malloc(2 * (size_t)t->n * sizeof *x);
    if (!x)
        return false;
    h->per_row = (t->n + ROWS_MAX - 1) / ROWS_MAX;
    h->n_rows = (t->n + h->per_row - 1) / h->per_row;
    for (int a = 0; a < t->n_columns; a += per_column) {
        int b = a + per_column < t->n_columns ? a + per_column : t->n_columns, c = h->n_columns++;
        add_up(t, a, b, x);
        double median = median_of(x, t->n, x + t->n);
        h->column[c] = t->column[a];
        for (int k = a + 1; k < b; k++) {
            h->column[c].first = t->column[k].first < h->column[c].first ? t->column[k].first : h->column[c].first;
            h->column[c].last = t->column[k].last > h->column[c].last ? t->column[k].last : h->column[c].last;
        }
        for (int row = 0; row < h->n_rows; row++) {
            double most = 0;
            for (int r = row * h->per_row; r < (row + 1) * h->per_row && r < t->n; r++)
                most = fmax(most, x[r]);
            h->cell[row][c] = (signed char)(most > 0 && median > 0 ? level_of(most / median) : -1);
        }
    }
    free(x);
    return true;
}

static double x_of(uint64_t step, uint64_t least, uint64_t most)
{
    return step <= least ? 0 : 1000 * (double)(step - least) / (double)(most - least);
}

/* A level's cells, those beside each other as one. */
static void put_level(FILE *f, const struct heat *h, int which, uint64_t least, uint64_t most)
{
    fprintf(f, "<path style=\"fill:var(--%s)\" d=\"", level[which].colour);
    for (int row = 0; row < h->n_rows; row++)
        for (int c = 0, end; c < h->n_columns; c = end) {
            end = c + 1;
            if (h->cell[row][c] != which)
                continue;
            while (end < h->n_columns && h->cell[row][end] == which && h->column[end].first >= h->column[end - 1].first)
                end++;
            double from = x_of(h->column[c].first, least, most), to = x_of(h->column[end - 1].last, least, most);
            fprintf(f, "M%.1f %dh%.1fv1h%.1fz", from, row, fmax(to - from, 1) + 0.2, -fmax(to - from, 1) - 0.2);
        }
    fputs("\"/>", f);
}

static void put_rows(FILE *f, const struct report_run *r, const struct heat *h)
{
    int every = (h->n_rows + 7) / 8;
    const struct record_start *s = r->start;
    fputs("<div class=\"y\" aria-hidden=\"true\">", f);
    for (int row = 0; row < h->n_rows; row += every) {
        int rank = row * h->per_row;
        fprintf(f, "<span style=\"top:%.1f%%\">", 100 * (row + 0.5) / h->n_rows);
        fprintf(f, "%d", rank);
        if (s->node_of && rank < s->n_ranks && strlen(s->node[s->node_of[rank]]) <= 4) {
            fputs(" (", f);
            report_escape(f, s->node[s->node_of[rank]]);
            fputs(")", f);
        }
        fputs("</span>", f);
    }
    fputs("</div>", f);
}

static void put_legend(FILE *f)
{
    fputs("<ul class=\"legend\">", f);
    for (int i = 0; i < LEVELS; i++)
        fprintf(f, "<li><i style=\"background:var(--%s)\"></i>%s</li>", level[i].colour, level[i].text);
    fputs("</ul>", f);
}

void report_heat(FILE *f, const struct report_run *r, uint64_t least, uint64_t most)
{
    struct heat *h = calloc(1, sizeof *h);
    char who[64];
    if (r->record.ranks.n_columns > 0 && r->record.ranks.n > 1 && h && fill(h, &r->record.ranks)) {
        fputs("<figure><figcaption><h2>Ranks: ", f);
        report_escape(f, r->name);
        fputs("</h2><span class=\"soft small\">a row is a rank, or the slowest of several: its computing, over the "
              "median rank's</span>", f);
        put_legend(f);
        fputs("</figcaption><div class=\"plot\">", f);
        put_rows(f, r, h);
        fprintf(f, "<svg class=\"heat\" style=\"height:%drem\" viewBox=\"0 0 1000 %d\" preserveAspectRatio=\"none\" "
                "shape-rendering=\"crispEdges\" role=\"img\"><title>Computing of each rank over steps %" PRIu64 " to %"
                PRIu64 "; slowest over all: ", h->n_rows < 8 ? 6 : h->n_rows < 16 ? 10 : 16, h->n_rows, least, most);
        report_escape(f, record_rank_name(&r->record, r->slowest, who, sizeof who));
        fprintf(f, ", %.2f times the median</title>", r->slowest_factor);
        for (int i = 0; i < LEVELS; i++)
            put_level(f, h, i, least, most);
        fputs("</svg>", f);
        report_steps(f, least, most);
        fputs("</div></figure>\n", f);
    }
    free(h);
}
