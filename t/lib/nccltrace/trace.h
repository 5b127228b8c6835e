/* trace.h - stands where libnccl.so.2 is opened (a folder of its own, found through LD_LIBRARY_PATH), hands every call
 * to the libnccl underneath, and records what was called and answered; or replays such a record over the double of NCCL
 * (t/lib/nccldouble): then the double moves the data, and the answers are those of the record.
 *
 *   NCCLTRACE_LIBRARY  path of the libnccl underneath: NVIDIA's, or the double
 *   NCCLTRACE_RECORD   writes PREFIX.rankR.trace, R as RANK or SLURM_PROCID says
 *   NCCLTRACE_ABOUT    text for the head of the file
 *   NCCLTRACE_KILL     "RANK CALL K": that rank dies by SIGKILL in its K-th call of that name, before it is handed on
 *   NCCLTRACE_REPLAY   replays PREFIX.rankR.trace
 *
 * A trace: lines that begin with # say what was recorded. Every other line is a call,
 *
 *   NUMBER AT_MS TOOK_MS NAME ARGUMENTS = CODE [x N] [; NOTE]
 *
 * AT_MS counted from the first one. Communicators are c0, c1, ... in the order in which they are first seen, ids u0,
 * u1, ..., memory of ncclMemAlloc's p0, p1, ...; the id's bytes are nowhere. "state c0 = 7 x 812" is 812 calls of
 * ncclCommGetAsyncError in a row that all said 7 (ncclInProgress), over TOOK_MS. The last line is "end" if the process
 * ended by itself. More than MAX_LINES are not written.
 *
 * A replay answers with the codes of the trace. A state lasts as long as it did, at most MOST_STATE_MS, and is success
 * no sooner than the double has done what was called. Polls, versions and texts of errors may be asked for at any time;
 * all other calls must come as they stand in the trace, name and arguments, and none on a communicator whose last
 * answer was ncclInProgress: else the process says which line has what, and ends with REFUSED. Notes are not compared.
 * What another rank's death interrupts is not exact: an abort may come up to SLACK calls sooner or later. Where the
 * trace ends without "end" the process dies by SIGKILL, as the recorded one did. One that ends says so on stderr. */
#ifndef DDP_T_NCCLTRACE_H
#define DDP_T_NCCLTRACE_H

#include <stdbool.h>
#include <stdio.h>

#include <nccl.h>

enum { MAX_LINES = 20000, MOST_STATE_MS = 500, MOST_CALL_MS = 100, SLACK = 8, REFUSED = 86, TEXT = 256 };

/* One call, or a run of equal answers of ncclCommGetAsyncError. */
struct call {
    char text[TEXT]; /* name and arguments */
    char note[TEXT];
    int code;
    double at_ms, took_ms;
    const void *expected; /* in a replay: replay.c's */
};

/* ---- under.c: the library underneath; ends the process if there is none ---- */

#define UNDER_FUNCTIONS(X) \
    X(ncclGetVersion) X(ncclGetUniqueId) X(ncclCommInitRankConfig) X(ncclCommInitRank) X(ncclCommGetAsyncError) \
    X(ncclCommFinalize) X(ncclCommDestroy) X(ncclCommAbort) X(ncclGetErrorString) X(ncclGetLastError) X(ncclMemAlloc) \
    X(ncclMemFree) X(ncclCommRegister) X(ncclCommDeregister) X(ncclGroupStart) X(ncclGroupEnd) X(ncclAllReduce) \
    X(ncclReduceScatter) X(ncclAllGather) X(ncclBroadcast) X(ncclSend) X(ncclRecv)

struct under {
#define MEMBER(name) __typeof__(name) *name;
    UNDER_FUNCTIONS(MEMBER)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
    MEMBER(ncclCommInitRankScalable)
#endif
#undef MEMBER
    int (*nccldouble_pending)(void); /* NULL: it is no double */
};
const struct under *under(void);
int own_rank(void);
double now_ms(void); /* since its first call */

/* ---- label.c: names instead of addresses ---- */

const char *label_comm(ncclComm_t c); /* a new one if it is unknown; from then until label_forget */
void label_forget(ncclComm_t c);
const char *label_id(const ncclUniqueId *id);
void label_memory(void *p, size_t n_bytes);
const char *label_pointer(const void *p, char buf[32]);

/* ---- record.c ---- */

bool record_is_on(void);
void record_call(const struct call *k);
void record_state(const char *text, int code, double at_ms); /* one poll */
void record_flush(void);                                     /* the polls that wait for others like them */

/* ---- replay.c ---- */

bool replay_is_on(void);
/* Takes the next line, which must be k; true: the call is handed on, else k->code is the answer. */
bool replay_begin(struct call *k);
/* k->code was the double's answer; becomes the trace's. */
void replay_end(struct call *k);
int replay_state(const char *text, int of_double);
int replay_version(void);                 /* 0: it has none */
const char *replay_last_error(void);      /* NULL: it has none */

#endif
