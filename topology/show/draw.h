/* draw.h - the shapes of the picture: each function adds one element of SVG 1.1. Pure. Texts may be anything: they are
 * cleaned and escaped here. */
#ifndef DDP_TOPOLOGY_SHOW_DRAW_H
#define DDP_TOPOLOGY_SHOW_DRAW_H

#include "topology/show/layout.h"

struct color {
    char fill[8], ink[8]; /* "#rrggbb": a rank's colour, and black or white, whichever reads better on it */
};
struct color draw_color(int rank); /* 16 that differ, then lighter, darker, and again */

/* fill and stroke: colours or "none"; extra: more attributes, "" for none. */
void draw_box(struct text *t, struct box b, double radius, const char *fill, const char *stroke, const char *extra);

/* Adds a name from outside, escaped for XML; at most max_chars characters (0: all). */
void draw_name(struct text *t, const char *s, size_t max_chars);

/* `anchor`: "start", "middle" or "end"; s, max_chars as above. */
void draw_text(struct text *t, double x, double y, double size, const char *anchor, const char *fill, bool is_bold,
               const char *s, size_t max_chars);

/* A curve from one point to another, usually below it; it leaves and arrives vertically. */
void draw_line(struct text *t, double x1, double y1, double x2, double y2, const char *stroke, double width,
               const char *dash);

/* A small square with the rank's number, its left upper corner at x, y. Returns its width. */
double draw_badge(struct text *t, double x, double y, int rank);

#endif
