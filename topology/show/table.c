/* table.c - the ranks as a table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/show/impl.h"

const char *const show_headings[COL_N] = {"rank", "GPU", "cores", "CPUs", "memory", "NIC", "why"};

enum {
    NAME_COLUMNS = 24, /* of a GPU's name: the table should fit 120 columns */
    FOLD_FROM = 17,    /* ranks without GPU that follow one another are folded from here on */
};

static void add_gpu_cell(struct text *t, const struct show *s, const struct place *p)
{
    char bus[INVENTORY_BUS_TEXT];
    if (p->device < 0) {
        text_add(t, "-");
        return;
    }
    text_printf(t, "%d", p->device);
    if (p->gpu < 0) {
        text_add(t, " (not in the inventory)");
        return;
    }
    text_printf(t, " %s ", inventory_bus(&s->inventory->gpu[p->gpu].pci, bus));
    text_ascii(t, s->inventory->gpu[p->gpu].name, NAME_COLUMNS);
}

static void add_cores_cell(struct text *t, const struct show *s, const struct place *p)
{
    text_printf(t, "%d", p->n_cores);
    if (p->gpu >= 0 && p->n_near < p->n_cores && inventory_has_home(s->inventory, &s->inventory->gpu[p->gpu].pci))
        text_printf(t, ", %d near", p->n_near);
    if (p->n_sharing > 1)
        text_printf(t, ", %d ranks", p->n_sharing);
}

static void add_nic_cell(struct text *t, const struct show *s, const struct place *p)
{
    if (p->nic < 0) {
        text_add(t, "-");
        return;
    }
    text_ascii(t, inventory_nic_name(&s->inventory->nic[p->nic]), 16);
    text_printf(t, ", %s", inventory_distance_name(p->nic_distance));
}

/* What stands before a colon: the rest is said in a note. */
static void add_why_cell(struct text *t, const char *why)
{
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(why, ":"), why);
    text_ascii(t, text, 0);
}

static bool fill(struct show_row *row, const struct show *s, int rank)
{
    const struct place *p = &s->place[rank];
    struct text t[COL_N] = {{0}};
    bool is_whole = true;
    row->first = row->last = rank;
    add_gpu_cell(&t[COL_GPU], s, p);
    add_cores_cell(&t[COL_CORES], s, p);
    text_cpus_short(&t[COL_CPUS], &p->cpus);
    if (p->numa >= 0)
        show_add_node(&t[COL_MEMORY], s->inventory, p->numa);
    else
        text_add(&t[COL_MEMORY], "-");
    add_nic_cell(&t[COL_NIC], s, p);
    add_why_cell(&t[COL_WHY], placement_why(s->request, p));
    for (int c = 0; c < COL_N; c++)
        is_whole &= (row->cell[c] = text_take(&t[c])) != NULL;
    return is_whole;
}

static void clear(struct show_row *row)
{
    for (int c = 0; c < COL_N; c++)
        free(row->cell[c]);
    *row = (struct show_row){0};
}

static bool is_alike(const struct show_row *a, const struct show_row *b, bool but_cpus)
{
    for (int c = COL_RANK + 1; c < COL_N; c++)
        if (!(c == COL_CPUS && but_cpus) && strcmp(a->cell[c], b->cell[c]))
            return false;
    return true;
}

/* The place in hwloc's order of the first or last core that touches the set; -1: none. */
static int edge_core(const struct inventory *inv, const struct cpus *set, bool is_last)
{
    for (size_t i = 0; i < inv->n_cores; i++) {
        size_t c = is_last ? inv->n_cores - 1 - i : i;
        if (inventory_core_touches(inv, c, set))
            return (int)c;
    }
    return -1;
}

/* Of many ranks without GPU: have those of the line `row`, and then `next`, equally many cores of their own that follow
 * one another? */
static bool continues(const struct show *s, const struct show_row *row, const struct show_row *next)
{
    const struct place *last = &s->place[next->first - 1], *p = &s->place[next->first];
    if (s->request->n_ranks < FOLD_FROM || p->device >= 0 || p->n_sharing != 1 || last->n_sharing != 1)
        return false;
    return is_alike(row, next, true) &&
           edge_core(s->inventory, &last->cpus, true) + 1 == edge_core(s->inventory, &p->cpus, false);
}

/* A line for several ranks: "0-63" | "1 each" | all their CPUs, in this order. */
static bool finish(const struct show *s, struct show_row *row)
{
    struct text rank = {0}, cores = {0}, cpus = {0};
    text_printf(&rank, row->last > row->first ? "%d-%d" : "%d", row->first, row->last);
    free(row->cell[COL_RANK]);
    row->cell[COL_RANK] = text_take(&rank);
    if (row->last == row->first || cpus_equal(&s->place[row->first].cpus, &s->place[row->last].cpus))
        return row->cell[COL_RANK];
    struct cpus all = {{0}};
    for (int r = row->first; r <= row->last; r++)
        cpus_or(&all, &s->place[r].cpus);
    text_printf(&cores, "%s each", row->cell[COL_CORES]);
    text_cpus_short(&cpus, &all);
    text_add(&cpus, " in turn");
    free(row->cell[COL_CORES]);
    free(row->cell[COL_CPUS]);
    row->cell[COL_CORES] = text_take(&cores);
    row->cell[COL_CPUS] = text_take(&cpus);
    return row->cell[COL_RANK] && row->cell[COL_CORES] && row->cell[COL_CPUS];
}

/* Adds the rank's line to the rows, or the rank to the last line. `turn` is whether that line takes ranks in turn. */
static bool add_rank(const struct show *s, struct show_rows *rows, int rank, int *turn)
{
    struct show_row *row = &rows->row[rows->n], *last = rows->n ? row - 1 : NULL;
    bool is_whole = fill(row, s, rank);
    bool same = is_whole && last && *turn != 1 && is_alike(last, row, false);
    bool next = is_whole && last && !same && *turn != 0 && continues(s, last, row);
    if (same || next) {
        *turn = next;
        last->last = rank;
        clear(row);
    } else {
        *turn = -1;
        rows->n++;
    }
    return is_whole;
}

struct show_rows *show_rows(const struct show *s)
{
    struct show_rows *rows = calloc(1, sizeof *rows + (size_t)s->request->n_ranks * sizeof rows->row[0]);
    bool is_whole = rows != NULL;
    int turn = -1;
    for (int r = 0; is_whole && r < s->request->n_ranks; r++)
        is_whole = add_rank(s, rows, r, &turn);
    for (size_t i = 0; is_whole && i < rows->n; i++) {
        is_whole = finish(s, &rows->row[i]);
        for (int c = 0; is_whole && c < COL_N; c++)
            rows->is_used[c] |= (c != COL_GPU && c != COL_NIC) || strcmp(rows->row[i].cell[c], "-");
    }
    if (is_whole)
        return rows;
    show_rows_destroy(rows);
    return NULL;
}

void show_rows_destroy(struct show_rows *rows)
{
    for (size_t i = 0; rows && i < rows->n; i++)
        clear(&rows->row[i]);
    free(rows);
}

static void measure(const struct show_rows *rows, size_t width[COL_N])
{
    for (int c = 0; c < COL_N; c++) {
        width[c] = text_columns(show_headings[c]);
        for (size_t i = 0; i < rows->n; i++) {
            size_t n = text_columns(rows->row[i].cell[c]);
            width[c] = n > width[c] ? n : width[c];
        }
    }
}

static void add_line(struct text *t, const struct show_rows *rows, const size_t width[COL_N], char *const *cell)
{
    size_t column = 0;
    for (int c = 0; c < COL_N; c++) {
        if (!rows->is_used[c])
            continue;
        text_pad(t, column + (c == COL_RANK ? width[c] - text_columns(cell[c]) : 0));
        text_add(t, cell[c]);
        column += width[c] + 2;
    }
    text_add(t, "\n");
}

char *show_table(const struct show *s)
{
    struct text t = {0};
    struct show_rows *rows = show_rows(s);
    size_t width[COL_N];
    if (!rows)
        return NULL;
    measure(rows, width);
    add_line(&t, rows, width, (char *const *)show_headings);
    for (size_t i = 0; i < rows->n; i++)
        add_line(&t, rows, width, rows->row[i].cell);
    show_rows_destroy(rows);
    show_add_notes(&t, s);
    return text_take(&t);
}
