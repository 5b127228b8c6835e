/* boot.h - how the N processes of a job find each other: put, fence and get.
 *
 * A boot is used once, by one thread: exchange, then boot_leave, before training starts. (While a PMIx client is
 * connected, Slurm kills the whole step when one rank dies, so no rank stays connected.)
 *
 * Backends: `local` (the protocol of boot_wire.h over a unix socket, for `ddp run`, or over TCP with a token), `pmix`
 * (under srun: the same protocol over TCP, served by rank 0 until all ranks have left; PMIx carries the server's
 * address), `pmi` (the same where PMI 1 carries it: srun --mpi=pmi2), `guard` (the same where the step's guards carry
 * it), `single` (one process). boot_open chooses the backend that DDP_BOOT names, else local if
 * DDP_BOOT_ADDR is set (`ddp run` sets it), else guard if DDP_GUARD_DOOR is set, else pmix if the process runs under
 * PMIx, else pmi if it runs under PMI, else single. With several tasks (by SLURM_STEP_NUM_TASKS or SLURM_NTASKS, of
 * which either may be another step's or the job's) and neither it refuses, because N processes would train N models. */
#ifndef DDP_PMIX_BOOT_H
#define DDP_PMIX_BOOT_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

#define BOOT_VALUE_MAX 65535 /* bytes */
#define BOOT_KEY_MAX 127
#define BOOT_NONCE_BYTES 16

typedef struct boot boot_t;

/* Connects. Waits until `deadline` (clock.h) at most for the server and for the peers to connect. */
boot_t *boot_open(uint64_t deadline, ddp_error_t *errp);

/* A boot over functions of the caller's, which have a store of keys and values already: its own way to choose ranks.
 * With a secret of the step's (secret.h) what a stranger puts there is refused; boot_get also names a rank that has
 * none, or another, or that has one where this rank has not. */
struct boot_given {
    int rank, size;
    void *ctx;
    /* Publishes data[0..n) under key, which no rank uses twice. 0, or -1 with *errp filled. */
    int (*put)(void *ctx, const char *key, const void *data, size_t n, ddp_error_t *errp);
    /* Waits until key is there, timeout_s seconds at most, and copies its value, of at most `size` bytes, to data; its
     * number of bytes, or -1 with *errp filled. */
    long (*get)(void *ctx, const char *key, void *data, size_t size, double timeout_s, ddp_error_t *errp);
};

/* *g is copied. Where a guard watches beside the program and these are all of the step's ranks, with its numbers, the
 * guard is heeded (notice.h) from now on: the watch tells it whom it finds to be the cause of a failure. */
boot_t *boot_given(const struct boot_given *g, ddp_error_t *errp);

int boot_rank(const boot_t *b);
int boot_size(const boot_t *b);

/* Publishes data[0..n) of this rank under key; visible to every rank after the next fence. Copies. */
int boot_put(boot_t *b, const char *key, const void *data, size_t n, ddp_error_t *errp);

/* Returns once every rank has called it; every rank can then get what was put before. */
int boot_fence(boot_t *b, uint64_t deadline, ddp_error_t *errp);

/* *ret_data becomes a copy (malloc; the caller frees) of what `rank` has put under key, and *ret_n its length. */
int boot_get(boot_t *b, int rank, const char *key, void **ret_data, size_t *ret_n, uint64_t deadline,
             ddp_error_t *errp);

/* A token for connections to `rank`, which has drawn this nonce and put it: what it becomes in place. Over a store that
 * others may read it follows from the step's secret, where there is one; else it is the nonce. */
void boot_token(const boot_t *b, int rank, unsigned char token[BOOT_NONCE_BYTES]);

/* Leaves and frees, whatever it returns. NULL is allowed. Call it on every path; it does not disturb ranks that go on.
 * Under srun, rank 0 waits here until the other ranks have left, at most 10 s (1 s if the exchange has failed), and
 * every rank waits for the step's daemon, at most 5 s. -1: this rank could not leave and may still be connected to PMIx
 * (see above); a program must not go on to train then. */
int boot_leave(boot_t *b, ddp_error_t *errp);

#endif
