/* live.h - a training run on a terminal: a few lines that are drawn again in place. Other output goes between live_hide
 * and live_show. The cursor is always on the line below the block, so that whatever ends the program leaves it there.
 * There is no thread and no signal handler, and nothing is read from the terminal. */
#ifndef DDP_RUNTIME_TRAIN_LIVE_H
#define DDP_RUNTIME_TRAIN_LIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LIVE_EVERY_NS 250000000ull /* from one drawing to the next, at least */

/* What is shown. NAN: not known, and not shown. */
struct live_state {
    uint64_t step, steps; /* done; the last one, 0: not known */
    double goal_s;        /* until the last step is done */
    double limit_s;       /* until the job's time is over */
    double loss;
    double items_per_s;
    const char *items;    /* what the program calls them: "tokens" */
    double flops;         /* FLOP/s of one rank */
    double mfu, efficiency, exposed; /* shares: of the device's peak; of so many single ranks; of the time, in which
                                        communication was waited for */
    const char *slow;     /* the rank that holds up the others, in words; "": none */
};

enum { LIVE_COLOR = 1, LIVE_UTF8 = 2 };

struct live_text {
    char text[2048]; /* each line ends with a newline */
    int n_cols;      /* of the longest */
};

/* The block for a terminal of `width` columns, of which the last stays free. Items that do not fit go to a next line; a
 * line that does not fit is cut. Flags: LIVE_*; without them nothing but printable ASCII and newlines. Pure. */
void live_format(const struct live_state *s, int width, unsigned flags, struct live_text *ret);

/* "42s", "12m 05s", "3h 12m", "4d 07h", "120d"; "": not known. At least 16 bytes. Pure. */
const char *live_time(double s, char *ret, size_t size);

struct live {
    FILE *f;
    unsigned flags;
    struct live_text drawn;
    int n_up;          /* lines of it that are on the terminal, above the cursor */
    uint64_t drawn_ns; /* 0: never */
};

/* True: f is a terminal on which a block can be drawn; then *l is filled, and nothing drawn yet. Colours unless
 * NO_COLOR is set, other characters than ASCII where LC_ALL, LC_CTYPE or LANG say UTF-8. */
bool live_open(struct live *l, FILE *f);

/* True where LIVE_EVERY_NS have gone by. NULL: false. */
bool live_is_due(const struct live *l, uint64_t now_ns);

/* Draws it, in place of what was drawn before; not while the terminal takes nothing (Ctrl-S). */
void live_draw(struct live *l, const struct live_state *s, uint64_t now_ns);

/* Takes the block away, and draws the same again. NULL: nothing. */
void live_hide(struct live *l);
void live_show(struct live *l);

#endif
