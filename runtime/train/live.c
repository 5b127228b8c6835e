#include "runtime/train/live.h"

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BAR_MOST 40
#define BAR_LEAST 6
#define PLAIN "\033[0m"
#define DIM "\033[2m"
#define GREEN "\033[32m"
#define YELLOW "\033[33m"

/* ---- the text ---- */

struct pen {
    struct live_text *to;
    size_t n;  /* bytes so far */
    int width; /* columns that may be used */
    int col;
    unsigned flags;
};

static bool is_inside(char c) /* of a character's UTF-8 bytes, all but the first */
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static int cols(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += !is_inside(*text);
    return n;
}

static void append(struct pen *p, const char *bytes, size_t n)
{
    if (p->n + n >= sizeof p->to->text)
        return;
    memcpy(p->to->text + p->n, bytes, n);
    p->n += n;
}

/* As much as the line has room for. */
static void put(struct pen *p, const char *text)
{
    while (*text && p->col < p->width) {
        size_t n = 1;
        while (is_inside(text[n]))
            n++;
        unsigned char c = (unsigned char)*text;
        bool is_shown = c >= ' ' && c != 127 && (c < 128 || (p->flags & LIVE_UTF8));
        append(p, is_shown ? text : "?", is_shown ? n : 1);
        p->col++;
        text += n;
    }
}

static void put_in(struct pen *p, const char *color, const char *text)
{
    bool is_colored = p->flags & LIVE_COLOR && *color && *text;
    if (is_colored)
        append(p, color, strlen(color));
    put(p, text);
    if (is_colored)
        append(p, PLAIN, strlen(PLAIN));
}

static void end_line(struct pen *p)
{
    append(p, "\n", 1);
    p->to->n_cols = p->col > p->to->n_cols ? p->col : p->to->n_cols;
    p->col = 0;
}

/* Where the line has no room for n columns more, another begins. */
static void make_room(struct pen *p, int n)
{
    const char *between = p->flags & LIVE_UTF8 ? " \u00b7 " : " | ";
    if (p->col && p->col + cols(between) + n > p->width)
        end_line(p);
    if (p->col)
        put_in(p, DIM, between);
}

static void item(struct pen *p, const char *name, const char *value)
{
    make_room(p, cols(name) + 1 + cols(value));
    put_in(p, DIM, name);
    put(p, " ");
    put(p, value);
}

static void percent_item(struct pen *p, const char *name, double share)
{
    char value[32];
    if (isnan(share))
        return;
    snprintf(value, sizeof value, "%.1f%%", 100 * share);
    item(p, name, value);
}

/* 512, 51.2k, 1.23M */
static const char *short_number(double x, char *ret, size_t size)
{
    static const char *const unit[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t i = 0;
    for (; x >= 999.5 && i < sizeof unit / sizeof *unit - 1; i++)
        x /= 1000;
    snprintf(ret, size, "%.*f%s", i && x < 99.95 ? x < 9.995 ? 2 : 1 : 0, x, unit[i]);
    return ret;
}

const char *live_time(double s, char *ret, size_t size)
{
    const struct {
        double below_s, unit_s, part_s;
        const char *format;
    } forms[] = {{60, 1, 1, "%.0fs"},
                 {3600, 60, 1, "%.0fm %02.0fs"},
                 {86400, 3600, 60, "%.0fh %02.0fm"},
                 {8640000, 86400, 3600, "%.0fd %02.0fh"},
                 {INFINITY, 86400, 86400, "%.0fd"}};
    size_t i = 0;
    *ret = 0;
    if (!isfinite(s) || s >= 1e10)
        return ret;
    s = s > 0 ? floor(s) : 0;
    while (s >= forms[i].below_s)
        i++;
    double whole = floor(s / forms[i].unit_s);
    snprintf(ret, size, forms[i].format, whole, floor((s - whole * forms[i].unit_s) / forms[i].part_s));
    return ret;
}

static void bar(struct pen *p, double share, int n)
{
    bool is_utf8 = p->flags & LIVE_UTF8;
    const char *full = is_utf8 ? "\u2501" : "#", *rest = is_utf8 ? "\u2500" : ".";
    int halves = (int)(share * 2 * n);
    bool has_half = is_utf8 && halves % 2;
    char done[3 * BAR_MOST + 1] = "", left[3 * BAR_MOST + 1] = "";
    for (int i = 0; i < halves / 2; i++)
        strcat(done, full);
    if (has_half)
        strcat(done, "\u2578");
    for (int i = halves / 2 + has_half; i < n; i++)
        strcat(left, rest);
    put(p, is_utf8 ? "" : "[");
    put_in(p, GREEN, done);
    put_in(p, DIM, left);
    put(p, is_utf8 ? "" : "]");
}

/* "step 1240/3000 ====---- 41%  12m 05s left"; where there is little room without the words, then without the bar, then
 * without the percentage. */
static void progress(struct pen *p, const struct live_state *s)
{
    char count[64], percent[16] = "", left[32];
    double share = s->steps ? (double)s->step / (double)s->steps : 0;
    share = share > 1 ? 1 : share;
    snprintf(count, sizeof count, s->steps ? "%" PRIu64 "/%" PRIu64 : "%" PRIu64, s->step, s->steps);
    if (s->steps)
        snprintf(percent, sizeof percent, " %3d%%", (int)(100 * share));
    live_time(s->goal_s, left, sizeof left);
    int ends = p->flags & LIVE_UTF8 ? 0 : 2, words = cols("step ") + (*left ? cols(" left") : 0);
    int room = p->width - cols(count) - cols(percent) - (*left ? 2 + cols(left) : 0);
    bool has_words = room >= words + (s->steps ? 1 + ends + BAR_LEAST : 0);
    int n = room - (has_words ? words : 0) - 1 - ends;
    put_in(p, DIM, has_words ? "step " : "");
    put(p, count);
    if (s->steps && n >= BAR_LEAST) {
        put(p, " ");
        bar(p, share, n < BAR_MOST ? n : BAR_MOST);
    }
    if (room >= 0)
        put(p, percent);
    if (*left && p->width - p->col > cols(left)) {
        put(p, p->width - p->col >= 2 + cols(left) ? "  " : " ");
        put(p, left);
        put_in(p, DIM, has_words ? " left" : "");
    }
    end_line(p);
}

static void numbers(struct pen *p, const struct live_state *s)
{
    char value[32], name[32];
    if (!isnan(s->loss)) {
        snprintf(value, sizeof value, fabs(s->loss) < 1e5 ? "%.4f" : "%.4g", s->loss);
        item(p, "loss", value);
    }
    if (!isnan(s->items_per_s)) {
        snprintf(name, sizeof name, "%.20s/s", s->items);
        item(p, name, short_number(s->items_per_s, value, sizeof value));
    }
    if (!isnan(s->flops))
        item(p, "FLOP/s", short_number(s->flops, value, sizeof value));
    percent_item(p, "MFU", s->mfu);
    percent_item(p, "efficiency", s->efficiency);
    percent_item(p, "exposed comm", s->exposed);
}

static void warning(struct pen *p, const char *text)
{
    if (p->col)
        end_line(p);
    put_in(p, YELLOW, text);
    end_line(p);
}

/* The job's limit: one number more, or, where it comes before the last step, a line of its own. */
static void limit(struct pen *p, const struct live_state *s)
{
    char text[96], left[32];
    if (!*live_time(s->limit_s, left, sizeof left))
        return;
    if (!(s->limit_s < s->goal_s)) {
        item(p, "job ends in", left);
        return;
    }
    double steps = floor((double)(s->steps - s->step) * fmax(s->limit_s, 0) / s->goal_s);
    int n = snprintf(text, sizeof text, "job ends first, in %s", left);
    snprintf(text + n, sizeof text - (size_t)n, " (step %" PRIu64 ")", s->step + (uint64_t)steps);
    if (cols(text) > p->width)
        text[n] = 0;
    warning(p, text);
}

void live_format(const struct live_state *s, int width, unsigned flags, struct live_text *ret)
{
    struct pen p = {.to = ret, .width = width > 1 ? width - 1 : 1, .flags = flags};
    char slow[160];
    ret->n_cols = 0;
    progress(&p, s);
    numbers(&p, s);
    limit(&p, s);
    if (p.col)
        end_line(&p);
    snprintf(slow, sizeof slow, "slow: %s", s->slow);
    if (*s->slow)
        warning(&p, slow);
    ret->text[p.n] = 0;
}

/* ---- the terminal ---- */

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

static bool is_utf8(void)
{
    const char *locale = getenv(is_set("LC_ALL") ? "LC_ALL" : is_set("LC_CTYPE") ? "LC_CTYPE" : "LANG");
    const char *set = locale ? strchr(locale, '.') : NULL;
    return set && (!strncasecmp(set, ".utf-8", 6) || !strncasecmp(set, ".utf8", 5));
}

bool live_open(struct live *l, FILE *f)
{
    if (!isatty(fileno(f)) || !is_set("TERM") || !strcmp(getenv("TERM"), "dumb"))
        return false;
    *l = (struct live){.f = f, .flags = (is_set("NO_COLOR") ? 0 : LIVE_COLOR) | (is_utf8() ? LIVE_UTF8 : 0)};
    return true;
}

bool live_is_due(const struct live *l, uint64_t now_ns)
{
    return l && (!l->drawn_ns || now_ns - l->drawn_ns >= LIVE_EVERY_NS);
}

static bool takes_output(FILE *f)
{
    struct pollfd p = {.fd = fileno(f), .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && p.revents & POLLOUT;
}

static struct winsize size_of(FILE *f)
{
    struct winsize w;
    if (ioctl(fileno(f), TIOCGWINSZ, &w) < 0 || !w.ws_col)
        w = (struct winsize){.ws_col = 80};
    if (!w.ws_row)
        w.ws_row = 24;
    return w;
}

/* To the block's first line. */
static void go_up(struct live *l)
{
    if (l->n_up)
        fprintf(l->f, "\033[%dA\r", l->n_up);
    l->n_up = 0;
}

/* Over what is there: each line clears its own rest, so that nothing flickers. */
static void write_lines(struct live *l, int most)
{
    const char *line = l->drawn.text, *end;
    for (; l->n_up < most && (end = strchr(line, '\n')); line = end + 1, l->n_up++)
        fprintf(l->f, "%.*s\033[K\n", (int)(end - line), line);
    fputs("\033[J", l->f);
    fflush(l->f);
}

void live_draw(struct live *l, const struct live_state *s, uint64_t now_ns)
{
    struct winsize w = size_of(l->f);
    l->drawn_ns = now_ns;
    if (!takes_output(l->f))
        return;
    if (w.ws_col < l->drawn.n_cols) /* its lines may have become more: the block stays there, and one begins below */
        l->n_up = 0;
    go_up(l);
    live_format(s, w.ws_col, l->flags, &l->drawn);
    write_lines(l, w.ws_row - 1);
}

void live_hide(struct live *l)
{
    if (!l || !l->n_up)
        return;
    go_up(l);
    fputs("\033[J", l->f);
    fflush(l->f);
}

void live_show(struct live *l)
{
    if (!l || !l->drawn_ns || l->n_up)
        return;
    struct winsize w = size_of(l->f);
    if (w.ws_col >= l->drawn.n_cols) /* else the next drawing fits */
        write_lines(l, w.ws_row - 1);
}
