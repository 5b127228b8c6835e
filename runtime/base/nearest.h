/* nearest.h - the name that somebody most likely meant who wrote another one: for "did you mean". Pure. */
#ifndef DDP_BASE_NEAREST_H
#define DDP_BASE_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *name;  /* as written, up to its end or a "="; dashes before it do not count */
    const char *found; /* the nearest so far, borrowed; NULL: none is near */
    size_t least;      /* nearer than this it must be */
};

/* At most `slips` slips of the keyboard (a letter too much, too few or another one) away, and of fewer than half its
 * letters. */
struct nearest nearest_to(const char *name, size_t slips);

void nearest_try(struct nearest *n, const char *candidate);

/* ", did you mean FOUND?", or `otherwise` where none is near. Returns buf. */
const char *nearest_text(const struct nearest *n, const char *otherwise, char *buf, size_t size);

#endif
