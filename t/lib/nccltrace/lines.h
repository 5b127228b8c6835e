/* lines.h - a trace's file as lines (trace.h has the format). */
#ifndef DDP_T_NCCLTRACE_LINES_H
#define DDP_T_NCCLTRACE_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct line {
    int number; /* in the file */
    int code;
    double took_ms;
    char *text, *note; /* name and arguments; "" */
};
struct lines {
    struct line *line;
    size_t n;
    bool has_end; /* the process ended by itself */
};

/* Ends the process, and says why, if the file cannot be read or a line is none. The lines are never freed. */
void lines_read(struct lines *ret, const char *path);

#endif
