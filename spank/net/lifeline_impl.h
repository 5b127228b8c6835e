/* lifeline_impl.h - between lifeline.c and lifeline_serve.c. */
#ifndef DDP_SPANK_NET_LIFELINE_IMPL_H
#define DDP_SPANK_NET_LIFELINE_IMPL_H

#define LIFELINE_WORD_LEN 8

/* The last guard's word: a signature with the token of the step's guards. It tells nothing of the token, and whoever
 * repeats it is too late. Pure. */
void lifeline_word(const char *token, unsigned char ret[LIFELINE_WORD_LEN]);

#endif
