/* prefetch.h - windows of tokens, read by a thread beside the computation on those before.
 *
 * There are two buffers: one that the caller computes on, one that the thread fills. prefetch_start names the windows
 * that will be wanted next; prefetch_take gives them, or reads others itself where it is asked for others: what it
 * gives never depends on what was started. One thread calls. */
#ifndef DDP_RUNTIME_TRAIN_PREFETCH_H
#define DDP_RUNTIME_TRAIN_PREFETCH_H

#include "runtime/train/tokens.h"

typedef struct prefetch prefetch_t;

/* Windows of `window` tokens below vocab, at most max at once. tokens is borrowed. The caller destroys. */
prefetch_t *prefetch_create(const tokens_t *tokens, size_t max, size_t window, size_t vocab, ddp_error_t *errp);
void prefetch_destroy(prefetch_t *p); /* NULL is allowed; ends the thread, after the window that it is reading */

/* The next prefetch_take is expected to ask for the windows that begin at tokens first[0..n), n <= max. Comes when
 * what was taken last is still in use. */
void prefetch_start(prefetch_t *p, const uint64_t *first, size_t n);

/* *ret = [n, window] tokens, n <= max, the windows that begin at first[0..n), borrowed until the next prefetch_take. An
 * error that the thread met in them comes from here. */
int prefetch_take(prefetch_t *p, const uint64_t *first, size_t n, const int32_t **ret, ddp_error_t *errp);

#endif
