/* prefetch.h - a thread that reads windows of tokens while the caller computes on the windows before.
 *
 * There are two buffers: the caller computes on one, and the thread fills the other. prefetch_start names the windows
 * that will be needed next; prefetch_take returns them, or reads other windows itself if it is asked for others, so its
 * result never depends on prefetch_start. Only one thread may call. */
#ifndef DDP_RUNTIME_TRAIN_PREFETCH_H
#define DDP_RUNTIME_TRAIN_PREFETCH_H

#include "runtime/train/tokens.h"

typedef struct prefetch prefetch_t;

/* Windows of `window` tokens below vocab, at most max at once. tokens is borrowed. The caller destroys. */
prefetch_t *prefetch_create(const tokens_t *tokens, size_t max, size_t window, size_t vocab, ddp_error_t *errp);
void prefetch_destroy(prefetch_t *p); /* NULL is allowed; ends the thread after the window that it is reading */

/* Announces that the next prefetch_take will ask for the windows that begin at tokens first[0..n), n <= max. May be
 * called while the windows taken last are still in use. */
void prefetch_start(prefetch_t *p, const uint64_t *first, size_t n);

/* *ret = [n, window] tokens, n <= max: the windows that begin at first[0..n), borrowed until the next prefetch_take.
 * Also reports an error that the thread had in reading them. */
int prefetch_take(prefetch_t *p, const uint64_t *first, size_t n, const int32_t **ret, ddp_error_t *errp);

#endif
