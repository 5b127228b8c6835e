/* watch_board.h - the shared memory of watch.h: one cause, who left, a bell. Private to watch*.c. */
#ifndef DDP_RUNTIME_WATCH_BOARD_H
#define DDP_RUNTIME_WATCH_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/comm/watch.h"

struct watch_board {
    _Alignas(64) _Atomic uint64_t cause; /* struct cause as one word, so that nobody ever sees half of one */
    _Alignas(64) _Atomic uint32_t bell;  /* a futex */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t census; /* a deadline has passed: everyone who waits says for whom */
    /* Per rank of the job: whom it waits for, plus one, where it said so in a census; then texts, one per local rank
     * and one for what comes from other nodes; then, per rank, whether it left. */
    _Alignas(64) _Atomic int32_t waits_for[];
};

struct cause {
    enum watch_kind kind;
    enum watch_what what;
    int rank, arg; /* below 2^20 */
    int slot;      /* which text */
};
struct cause cause_unpack(uint64_t word);

/* "rank 3 (n2) died (signal 9)". text: of WATCH_ABORT and WATCH_DIFFERS. Returns -1. */
int cause_error(const struct world *w, struct cause c, const char *text, ddp_error_t *errp);

char *board_text(struct watch_board *b, const struct world *w, int slot); /* WATCH_TEXT_MAX + 1 bytes */
_Atomic uint8_t *board_left(struct watch_board *b, const struct world *w, int rank);

/* Whom the waits lead to, starting from suspect: a rank that waits itself is not to blame. -1: in a circle. */
int board_culprit(struct watch_board *b, const struct world *w, int suspect);

/* The first caller wins; text may be NULL. Each slot has one writing thread. */
bool board_raise(struct watch_board *b, const struct world *w, struct cause c, const char *text);

void board_ring(struct watch_board *b);
void board_wait(struct watch_board *b, uint32_t seen, uint64_t deadline);

#endif
