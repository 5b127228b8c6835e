/* flight.h - a flight recorder: what a rank's communicator does, in memory that another process of the same user can
 * read while the rank hangs ("ddp ps"). It lies in a memfd whose descriptor stays open, so that it is found in
 * /proc/PID/fd and gone with the process. One writer at a time; readers see each number whole. */
#ifndef DDP_BASE_FLIGHT_H
#define DDP_BASE_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FLIGHT_CALLS 64
#define FLIGHT_NAME_MAX 16 /* bytes, with the 0 */
#define FLIGHT_NOBODY (-1)

typedef struct flight flight_t;

/* NULL, where there is none to be had: the calls below then do nothing. */
flight_t *flight_open(int rank, int size);
void flight_close(flight_t *f);

/* A collective call begins. Calls are numbered from 1 on, alike on all ranks. */
void flight_call(flight_t *f, const char *name);

/* This rank now waits for another one, -2: for some; or, with FLIGHT_NOBODY, goes on. */
void flight_waits(flight_t *f, int rank);

void flight_step(flight_t *f, uint64_t n_steps); /* that were taken */

/* " (275 collectives begun, 123 steps done)", for an error's end; "" before the first call. Returns buf. */
const char *flight_where(const flight_t *f, char *buf, size_t size);

/* What a reader sees. */
struct flight_view {
    int rank, size, waits_for;
    uint64_t n_steps, n_calls;
    double waits_s;                                /* since the wait began */
    char name[FLIGHT_CALLS][FLIGHT_NAME_MAX];      /* of the last calls: number k is name[k % FLIGHT_CALLS];
                                                    * fit for a terminal */
};

/* Of the process `pid`, of this user. False: it has none. Of several communicators the one that was opened first: so
 * all ranks show the same one, whatever numbers their descriptors have. */
bool flight_read(pid_t pid, struct flight_view *ret);

#endif
