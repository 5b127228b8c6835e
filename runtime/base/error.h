/* error.h - how our library functions report errors.
 *
 * A function that fails returns NULL or -1 and fills a ddp_error_t: the domain is the kind of error, the code an errno
 * or a code of that domain, and the text one line for a person, which names the thing (rank, node, file, key) and the
 * cure. Every errp may be NULL. Nothing here prints. */
#ifndef DDP_BASE_ERROR_H
#define DDP_BASE_ERROR_H

#include <stdarg.h>

/* ddp.h, the installed header, holds the same lines: t/t0001-layering.t compares them. */
#ifndef DDP_ERROR_DEFINED
#define DDP_ERROR_DEFINED
/* begin ddp_error */
typedef struct ddp_error {
    int domain;     /* enum ddp_domain */
    int code;       /* an errno, or a code of that domain; never 0 */
    char text[256]; /* one line, no newline at its end */
} ddp_error_t;
enum ddp_domain {
    DDP_E_USAGE = 1, /* the caller passed or configured something wrong */
    DDP_E_SYSTEM,    /* the operating system refused; code is errno */
    DDP_E_BOOT,      /* wire-up failed */
    DDP_E_COMM,      /* a collective failed */
    DDP_E_PEER,      /* another rank died, left or aborted */
    DDP_E_TIMEOUT,   /* a deadline passed */
    DDP_E_DATA,      /* a file's content is wrong */
    DDP_E_LAYOUT,    /* ranks disagree on the parameters */
};
/* end ddp_error */
#endif

#define ERROR_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* Fills *errp (if not NULL) and returns -1, so that a caller can write `return error_set(...)`. The text becomes one
 * line, and characters that could steer a terminal become "?" (plain.h), since arguments may come from outside; a text
 * that is too long for the buffer goes without its middle (plain_fit). Preserves errno. */
int error_set(ddp_error_t *errp, int domain, int code, const char *fmt, ...) ERROR_PRINTF(4, 5);
int error_vset(ddp_error_t *errp, int domain, int code, const char *fmt, va_list ap);

/* As error_set, domain DDP_E_SYSTEM and code errno; ": " and the text of errno are appended. */
int error_errno(ddp_error_t *errp, const char *fmt, ...) ERROR_PRINTF(2, 3);

/* Puts "PREFIX: " in front of the text already there, keeping domain and code. Returns -1. */
int error_prefix(ddp_error_t *errp, const char *fmt, ...) ERROR_PRINTF(2, 3);

/* Text without "rank R: " at its beginning, if it begins so: for a caller that puts the rank's name in front itself.
 * Points into text. */
const char *error_of_rank(const char *text, int rank);

#endif
