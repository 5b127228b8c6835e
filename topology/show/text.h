/* text.h - a text that grows, for what show.h writes. Pure. Where memory is short the text is lost and text_take says
 * so, so that nobody checks each addition. */
#ifndef DDP_TOPOLOGY_SHOW_TEXT_H
#define DDP_TOPOLOGY_SHOW_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"
#include "topology/cpus.h"

struct text { /* {0} is an empty one */
    char *s;
    size_t n, size;
    bool is_lost;
};

void text_add(struct text *t, const char *s);
void text_move(struct text *t, struct text *from); /* all of *from, which is empty then, and lost where that was */
void text_printf(struct text *t, const char *fmt, ...) ERROR_PRINTF(2, 3);

/* A name from outside: what is not UTF-8, steers a terminal or turns the direction of writing becomes "?". At most
 * max_columns code points, the last then "~" (0: all). */
void text_name(struct text *t, const char *name, size_t max_columns);

/* The same in ASCII. */
void text_ascii(struct text *t, const char *name, size_t max_columns);

/* Text for XML, as content or in quotes: & < > " ' become references. */
void text_xml(struct text *t, const char *s);

/* "0-15,128-143" in full, however long; "none". */
void text_cpus(struct text *t, const struct cpus *set);

/* For people: three or more equal steps are one range, as taskset and cpus_parse take it: "0-46:2", every second. */
void text_cpus_short(struct text *t, const struct cpus *set);

/* Spaces until the last line is `column` columns wide. */
void text_pad(struct text *t, size_t column);

/* The last line's spaces at its end go. */
void text_trim(struct text *t);

size_t text_columns(const char *s); /* code points */

/* The text, which the caller frees from now on, and *t is empty; NULL where memory was short. */
char *text_take(struct text *t);

#endif
