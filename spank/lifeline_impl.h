/* lifeline_impl.h - between lifeline.c and lifeline_serve.c. */
#ifndef DDP_SPANK_LIFELINE_IMPL_H
#define DDP_SPANK_LIFELINE_IMPL_H

#include "spank/lifeline.h"

/* The last guard's word: this step is to be cancelled, signed with the token of the step's guards. It tells nothing of
 * the token, and whoever repeats it is too late. */
struct lifeline_word {
    unsigned char signature[8];
    char step[LIFELINE_STEP_MAX + 1]; /* zeros follow */
};

/* Fills `signature`, of the text in `step`. Pure. */
void lifeline_sign(const char *token, struct lifeline_word *w);

#endif
