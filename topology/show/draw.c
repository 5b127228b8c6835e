#include "topology/show/draw.h"

#include <stdio.h>
#include <stdlib.h>

struct color draw_color(int rank)
{
    static const unsigned char base[16][3] = {
        {0x2f, 0x6f, 0xd0}, {0xf2, 0xa0, 0x2e}, {0x2f, 0x9e, 0x55}, {0xd6, 0x41, 0x41},
        {0x8c, 0x58, 0xc8}, {0x22, 0xb4, 0xc6}, {0xe8, 0x78, 0xb4}, {0x86, 0x66, 0x3a},
        {0xae, 0xc2, 0x2c}, {0x56, 0x68, 0x7a}, {0xf5, 0xd5, 0x3c}, {0x18, 0x64, 0x48},
        {0x9c, 0xc6, 0xf4}, {0x7e, 0x1c, 0x40}, {0xcc, 0xb0, 0xec}, {0xf6, 0xb8, 0x98},
    };
    const unsigned char *b = base[rank % 16];
    int turn = rank / 16 % 3, rgb[3];
    for (int i = 0; i < 3; i++)
        rgb[i] = turn == 0 ? b[i] : turn == 1 ? b[i] + (255 - b[i]) / 2 : b[i] * 6 / 10;
    struct color c;
    snprintf(c.fill, sizeof c.fill, "#%02x%02x%02x", (unsigned)rgb[0] & 255, (unsigned)rgb[1] & 255,
             (unsigned)rgb[2] & 255);
    int luma = (299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2]) / 1000; /* ITU-R BT.601 */
    snprintf(c.ink, sizeof c.ink, "%s", luma > 140 ? "#000000" : "#ffffff");
    return c;
}

void draw_box(struct text *t, struct box b, double radius, const char *fill, const char *stroke, const char *extra)
{
    text_printf(
        t, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.1f\" fill=\"%s\" stroke=\"%s\"%s%s/>\n",
        b.x, b.y, b.w, b.h, radius, fill, stroke, extra[0] ? " " : "", extra);
}

void draw_name(struct text *t, const char *s, size_t max_chars)
{
    struct text clean = {0};
    text_name(&clean, s, max_chars);
    char *text = text_take(&clean);
    t->is_lost |= !text;
    text_xml(t, text ? text : "");
    free(text);
}

void draw_text(struct text *t, double x, double y, double size, const char *anchor, const char *fill, bool is_bold,
               const char *s, size_t max_chars)
{
    text_printf(t, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" text-anchor=\"%s\" fill=\"%s\"%s>", x, y, size,
                anchor, fill, is_bold ? " font-weight=\"bold\"" : "");
    draw_name(t, s, max_chars);
    text_add(t, "</text>\n");
}

void draw_line(struct text *t, double x1, double y1, double x2, double y2, const char *stroke, double width,
               const char *dash)
{
    double bend = y2 > y1 ? (y2 - y1) / 2 : 30;
    text_printf(
        t, "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"", x1,
        y1, x1, y1 + bend, x2, y2 - bend, x2, y2, stroke, width);
    text_printf(t, "%s%s%s/>\n", dash[0] ? " stroke-dasharray=\"" : "", dash, dash[0] ? "\"" : "");
}

double draw_badge(struct text *t, double x, double y, int rank)
{
    struct color c = draw_color(rank);
    char number[16];
    int n = snprintf(number, sizeof number, "%d", rank);
    struct box b = {x, y, n <= 2 ? 20 : 8 + 7.0 * n, 16};
    draw_box(t, b, 3, c.fill, "#333333", "stroke-width=\"0.8\"");
    draw_text(t, b.x + b.w / 2, b.y + 12, 11, "middle", c.ink, true, number, 0);
    return b.w;
}
