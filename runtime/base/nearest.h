/* nearest.h - the name that somebody most likely meant who wrote another one: for "did you mean". Pure. */
#ifndef DDP_BASE_NEAREST_H
#define DDP_BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

struct nearest {
    const char *name;  /* as written, up to its end or a "="; dashes before it do not count */
    const char *found; /* the nearest so far, borrowed; NULL: none is near */
    size_t least;      /* nearer than this it must be */
};

/* At most `slips` slips of the keyboard (a letter too much, too few or another one, or two that have changed places)
 * away, and of fewer than half its letters. */
struct nearest nearest_to(const char *name, size_t slips);

/* The same for a variable, NAME or NAME=VALUE. Shorter names are more easily another program's: behind a prefix of so
 * many letters a slip takes four more, two take eight. */
struct nearest nearest_to_variable(const char *variable, size_t prefix);

void nearest_try(struct nearest *n, const char *candidate);

bool nearest_is_slip(const struct nearest *n); /* one was found, and it is another name */

/* ", did you mean FOUND?", or `otherwise` where none is near. Returns buf. */
const char *nearest_text(const struct nearest *n, const char *otherwise, char *buf, size_t size);

#endif
