/* plain.h - text of foreign origin, made fit for a terminal and a log: no byte of it steers a terminal, turns the
 * direction of writing or begins a line that is not ours. Errors pass through here (error.h), and so does what the
 * plugin and the programs print that they did not write themselves. Pure. */
#ifndef DDP_BASE_PLAIN_H
#define DDP_BASE_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the code point that s begins with, at least 1; *ret_is_plain: it can be shown as it is. It cannot where it
 * is a control character (of C0 or C1, in UTF-8 or as one byte, or DEL), one that changes the direction of writing or
 * ends a line, or no UTF-8 (RFC 3629). */
size_t plain_next(const char *s, bool *ret_is_plain);

/* In place: white space other than spaces becomes a space, what else cannot be shown "?". The text gets no longer. */
void plain_line(char *text);

/* The same for a text of several lines: newlines stay. */
void plain_lines(char *text);

#endif
