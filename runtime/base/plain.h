/* plain.h - makes text from outside safe for a terminal and a log: no byte of it can steer a terminal, change the
 * direction of writing or begin a line of its own. All errors pass through here (error.h), and so does all text from
 * outside that the plugin and the programs print. Pure. */
#ifndef DDP_BASE_PLAIN_H
#define DDP_BASE_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the code point at the beginning of s, at least 1. *ret_is_plain: it can be shown as it is; that is, it is
 * valid UTF-8 (RFC 3629), no control character (C0 or C1, in UTF-8 or as one byte, or DEL), and does not change the
 * direction of writing or end a line. */
size_t plain_next(const char *s, bool *ret_is_plain);

/* In place: white space becomes a space, and whatever else cannot be shown becomes "?". The text does not get
 * longer. */
void plain_line(char *text);

/* The same for a text of several lines: newlines stay. */
void plain_lines(char *text);

/* `text`, in so many bytes of `to`: one that does not fit goes without its middle. Names of files stand there, and
 * behind them what is wrong. Cuts through no code point. */
void plain_fit(char *to, size_t size, const char *text);

#endif
