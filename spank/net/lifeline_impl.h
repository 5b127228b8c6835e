/* lifeline_impl.h - between lifeline.c and lifeline_serve.c. */
#ifndef DDP_SPANK_NET_LIFELINE_IMPL_H
#define DDP_SPANK_NET_LIFELINE_IMPL_H

#include "spank/net/lifeline.h"

#define LIFELINE_WORD_LEN 8
#define LIFELINE_PROBES_S 30

/* A guard's word: a signature with the token of the step's guards, of which it tells nothing. Whoever repeats the last
 * guard's is too late. Pure. */
void lifeline_sign(const char *token, enum lifeline_word what, unsigned char ret[LIFELINE_WORD_LEN]);

/* A connection whose other host goes without a word, by a loss of power say, ends LIFELINE_PROBES_S after idle_s. */
void lifeline_find_silence(int fd, int idle_s);

#endif
