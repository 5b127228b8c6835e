/* fold.h - a sum of several arrays, added from the last one to the first. */
#ifndef DDP_KERNELS_FOLD_H
#define DDP_KERNELS_FOLD_H

#include <stddef.h>

/* out[i] = in[0][i] + (in[1][i] + (... + in[n_in - 1][i])) for i in [0, n); n_in >= 1. out may be the last
 * of in[], and overlaps no other. Reads each input once. */
void kernel_fold(float *out, const float *const *in, int n_in, size_t n);

#endif
