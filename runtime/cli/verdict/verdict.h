/* verdict.h - what `ddp check` and `ddp doctor` say: a line for each item that they looked at. */
#ifndef DDP_RUNTIME_CLI_VERDICT_VERDICT_H
#define DDP_RUNTIME_CLI_VERDICT_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "runtime/base/error.h"

#define VERDICT_MAX 64 /* items */

enum verdict_level { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };

struct verdict {
    enum verdict_level level;
    const char *item; /* one word, borrowed */
    char found[512];  /* what there is, one line */
    char cure[512];   /* what to do about it; "": nothing */
    char *nodes;      /* malloc: nodes at fault, all, "n3,n7" as --exclude takes them; NULL: none in particular */
};

struct verdicts {
    struct verdict of[VERDICT_MAX]; /* [n] */
    size_t n;
};

/* Adds an item, with `cure` (NULL: none) and what was found; both become one line each. Returns it, for its nodes. More
 * than VERDICT_MAX replace the last. */
struct verdict *verdict_add(struct verdicts *l, enum verdict_level level, const char *item, const char *cure,
                            const char *fmt, ...) ERROR_PRINTF(5, 6);

/* Adds a node to those at fault, once. */
void verdict_blame(struct verdict *v, const char *node);

/* True if some item failed: the exit code is then 1. */
bool verdicts_failed(const struct verdicts *l);

/* All nodes at fault of items that failed, as --exclude takes them; malloc, or NULL: none. */
char *verdicts_exclude(const struct verdicts *l);

/* Frees what it holds; it is empty then. */
void verdicts_clear(struct verdicts *l);

/* A line for each item, and one that counts them. */
void verdicts_print(FILE *f, const struct verdicts *l);

/* {"version": 1, "items": [{"item", "verdict", "found", "cure", "nodes"}], "exclude": [...], "failed": false}: a json_t
 * of jansson's, the caller's. NULL: no memory. */
struct json_t *verdicts_json(const struct verdicts *l);

/* Prints it, frees it, and returns the exit code: 1 where it could not be made or written. */
int verdicts_write(FILE *f, struct json_t *j);

#endif
