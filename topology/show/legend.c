#include "topology/show/legend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/show/draw.h"

#define LINE 20.0
#define CHAR 6.3 /* width of a character of 12, about */

enum { ROWS_MAX = 72, CELL_MAX = 44, NOTE_MAX = 150 };

static void widen(double *w, double to)
{
    *w = to > *w ? to : *w;
}

double legend_head(struct text *t, const struct show *s, double *w)
{
    struct text machine = {0};
    show_add_machine(&machine, s->inventory);
    char *what = text_take(&machine);
    t->is_lost |= !what;
    draw_text(t, 0, 20, 20, "start", "#111111", true, s->inventory->origin, 64);
    draw_text(t, 0, 42, 13, "start", "#333333", false, what ? what : "", 0);
    widen(w, (double)text_columns(what ? what : "") * 6.6);
    free(what);
    if (s->about) {
        draw_text(t, 0, 61, 13, "start", "#333333", false, s->about, 0);
        widen(w, (double)text_columns(s->about) * 6.6);
    }
    return s->about ? 68 : 49;
}

static void column_widths(const struct show_rows *rows, double width[COL_N])
{
    for (int c = 0; c < COL_N; c++) {
        size_t most = text_columns(show_headings[c]);
        for (size_t i = 0; i < rows->n && i < ROWS_MAX; i++) {
            size_t n = text_columns(rows->row[i].cell[c]);
            most = n > most ? n : most;
        }
        width[c] = CHAR * (double)(most > CELL_MAX ? CELL_MAX : most) + 24;
    }
    width[COL_RANK] = 52;
}

static void draw_row(struct text *t, const struct show_rows *rows, const struct show_row *row,
                     const double width[COL_N], double y)
{
    double x = 0;
    for (int c = 0; c < COL_N; c++) {
        if (!rows->is_used[c])
            continue;
        if (c != COL_RANK)
            draw_text(t, x, y, 12, "start", "#222222", false, row->cell[c], CELL_MAX);
        else if (row->first == row->last)
            draw_badge(t, x, y - 12, row->first);
        else
            draw_text(t, x, y, 12, "start", "#222222", true, row->cell[c], 0);
        x += width[c];
    }
}

double legend_ranks(struct text *t, const struct show *s, const struct show_rows *rows, double y, double *w)
{
    double width[COL_N], x = 0, at = y + 12;
    column_widths(rows, width);
    for (int c = 0; c < COL_N; c++) {
        if (!rows->is_used[c])
            continue;
        draw_text(t, x, at, 12, "start", "#666666", true, show_headings[c], 0);
        x += width[c];
    }
    widen(w, x);
    for (size_t i = 0; i < rows->n && i < ROWS_MAX; i++)
        draw_row(t, rows, &rows->row[i], width, at += LINE);
    if (rows->n > ROWS_MAX) {
        char more[64];
        snprintf(more, sizeof more, "and %zu lines more, of %d ranks in all", rows->n - ROWS_MAX, s->request->n_ranks);
        draw_text(t, 0, at += LINE, 12, "start", "#222222", false, more, 0);
    }
    return at - y + 14;
}

static double key_item(struct text *t, double x, double y, const char *text)
{
    draw_text(t, x, y + 11, 11, "start", "#444444", false, text, 0);
    return x + CHAR * 0.95 * (double)strlen(text) + 24;
}

static double draw_signs(struct text *t, const struct show *s, const struct show_owner *owner, double y)
{
    bool is_idle = false, is_foreign = false, has_gpu = false, has_nic = false;
    double x = 0;
    for (size_t c = 0; c < s->inventory->n_cores; c++) {
        is_idle |= !owner[c].n && owner[c].is_in_step;
        is_foreign |= !owner[c].n && !owner[c].is_in_step;
    }
    for (int r = 0; r < s->request->n_ranks; r++) {
        has_gpu |= s->place[r].gpu >= 0;
        has_nic |= s->place[r].nic >= 0;
    }
    x = key_item(t, x, y, "square: a core, with its rank; grey ground: cores that share a cache");
    if (is_idle) {
        draw_box(t, (struct box){x, y, 14, 14}, 2, "#ffffff", "#9aa3ad", "stroke-dasharray=\"2 2\"");
        x = key_item(t, x + 20, y, "no rank's");
    }
    if (is_foreign) {
        draw_box(t, (struct box){x, y, 14, 14}, 2, "#d9dde2", "#9aa3ad", "");
        x = key_item(t, x + 20, y, "not of this step");
    }
    if (has_gpu) {
        text_printf(t, "<path d=\"M%.1f %.1fh22\" stroke=\"#555555\" stroke-width=\"3\"/>\n", x, y + 7);
        x = key_item(t, x + 28, y, "to its GPU");
    }
    if (has_nic) {
        text_printf(t, "<path d=\"M%.1f %.1fh22\" stroke=\"#555555\" stroke-width=\"2\" stroke-dasharray=\"5 3\"/>\n",
                    x, y + 7);
        x = key_item(t, x + 28, y, "to its NIC");
    }
    return x;
}

/* One line of text, broken at spaces. Returns the lower edge. */
static double draw_wrapped(struct text *t, const char *line, double y, double *w)
{
    while (*line) {
        size_t n = strlen(line);
        char part[NOTE_MAX + 1];
        if (n > NOTE_MAX) {
            n = NOTE_MAX;
            while (n > NOTE_MAX / 2 && line[n] != ' ')
                n--;
        }
        memcpy(part, line, n);
        part[n] = 0;
        draw_text(t, 0, y + 12, 12, "start", "#222222", false, part, 0);
        widen(w, CHAR * (double)n);
        line += n + (line[n] == ' ');
        y += 18;
    }
    return y;
}

double legend_key(struct text *t, const struct show *s, const struct show_owner *owner, double y, double *w)
{
    struct text lines = {0};
    double at = y;
    show_add_speeds(&lines, s->inventory);
    if (lines.n)
        text_add(&lines, "\n");
    show_add_notes(&lines, s);
    char *all = text_take(&lines), *rest = all, *line;
    t->is_lost |= !all;
    while (all && (line = strsep(&rest, "\n")))
        at = draw_wrapped(t, line, at, w);
    free(all);
    widen(w, draw_signs(t, s, owner, at + 6));
    return at + 26 - y;
}
