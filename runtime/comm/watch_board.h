/* watch_board.h - the shared memory of watch.h: one cause, the ranks that have left, a bell. Private to watch*.c. */
#ifndef DDP_RUNTIME_WATCH_BOARD_H
#define DDP_RUNTIME_WATCH_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/comm/watch.h"

struct watch_board {
    _Alignas(64) _Atomic uint64_t cause; /* struct cause packed into one word, so that it is read whole */
    _Alignas(64) _Atomic uint32_t bell;  /* a futex */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t census; /* a deadline has passed: every waiter publishes which rank it waits for */
    /* Per rank of the job: the rank that it waits for, plus one, if it has published that in a census. After these come
     * the texts, one per local rank, one for causes from other nodes, and again one per local rank for what its guard
     * says, which another thread writes; then, per rank, whether it has left. */
    _Alignas(64) _Atomic int32_t waits_for[];
};
#define BOARD_TEXTS(local_size) (2 * (local_size) + 1)

struct cause {
    enum watch_kind kind;
    enum watch_what what;
    int rank, arg; /* below 2^20 */
    int slot;      /* index of the text */
};
struct cause cause_unpack(uint64_t word);

/* Fills *errp with "rank 3 (n2) died (signal 9)" or the like, where a deadline has passed also with how far this rank
 * had come, as its flight recorder says (NULL: it has none). text: of WATCH_LATE, WATCH_ABORT, WATCH_DIFFERS and
 * WATCH_NOTICE.
 * Returns -1. */
int cause_error(const struct world *w, struct cause c, const char *text, const flight_t *flight, ddp_error_t *errp);

char *board_text(struct watch_board *b, const struct world *w, int slot); /* WATCH_TEXT_MAX + 1 bytes */
_Atomic uint8_t *board_left(struct watch_board *b, const struct world *w, int rank);

/* Follows the published waits, starting at suspect, to a rank that does not wait itself and is therefore to blame. -1:
 * the waits form a circle. */
int board_culprit(struct watch_board *b, const struct world *w, int suspect);

/* Writes the cause if there is none yet; true if this call wrote it. text may be NULL. Each slot has one writing
 * thread. */
bool board_raise(struct watch_board *b, const struct world *w, struct cause c, const char *text);

void board_ring(struct watch_board *b);
void board_wait(struct watch_board *b, uint32_t seen, uint64_t deadline);

#endif
