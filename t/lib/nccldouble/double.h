/* double.h - A TEST DOUBLE of NCCL, no NCCL: libnccl.so.2 in a folder of its own, found through LD_LIBRARY_PATH.
 *
 * "Device memory" is host memory. Operations really move data between the ranks' processes, through a file that they
 * map (collectives.c), by one worker thread per communicator, which takes what has been called in order; streams are
 * not told apart. What calls answer is scripted (script.c), and each is logged. It is stricter than NCCL where that
 * helps: a call on a communicator that is still busy with the one before is an error, in a group too. Memory that is
 * registered is ncclMemAlloc's, is registered once, of one size on all ranks where it is a window, and is registered
 * no more when the communicator is finalized or the memory freed. A window is written late, and an operation in one
 * that does not begin at the same offset on all ranks fails.
 *
 *   NCCLDOUBLE_SCRIPT  file of lines; # begins a comment:
 *       version 22304
 *       [rank R] CALL [at K] progress N          its state is ncclInProgress N times (1 unless scripted)
 *       [rank R] CALL [at K] error CODE TEXT     it fails
 *       [rank R] CALL [at K] async CODE TEXT     it succeeds, then the state is CODE
 *       [rank R] CALL [at K] hang                its state stays ncclInProgress until an abort
 *       [rank R] CALL [at K] block               it does not return
 *       [rank R] CALL [at K] none                it succeeds, and there is nothing: of window
 *       [rank R] CALL [at K] kill                the process ends by SIGKILL
 *     CALL: id init finalize destroy abort alloc register window group (the end of one) allreduce reducescatter
 *     allgather broadcast send recv. K: the process's K-th call of it (1, 2, ...); without: each. The first line that
 *     fits counts.
 *   NCCLDOUBLE_LOG     file to which each process appends a line per call: "rank 1 allreduce 1024 float32"
 *   NCCLDOUBLE_BACKWARDS=1 sums over the ranks begin with the last one: another order than libddp's, as NCCL's is
 *   NCCLDOUBLE_IN_ORDER=1  the state stays ncclInProgress until all that was called is done: for programs over the
 *                      emulated CUDA runtime, where a kernel that comes behind on the stream runs at once
 *   NCCLDOUBLE_DIR     folder for the mapped files ($TMPDIR, /tmp); the last rank to come removes its file */
#ifndef DDP_T_NCCLDOUBLE_H
#define DDP_T_NCCLDOUBLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <nccl.h>

/* ---- script.c ---- */

enum what { DO_OK, DO_PROGRESS, DO_ERROR, DO_ASYNC, DO_HANG, DO_NONE };
struct answer {
    enum what what;
    int n; /* of DO_PROGRESS; the code of DO_ERROR, DO_ASYNC */
};

int script_version(void);
struct answer script_call(const char *call); /* one more of it; blocks, or ends the process, where that is scripted */
const char *script_text(void);               /* of the last DO_ERROR or DO_ASYNC, or what script_say put there */
ncclResult_t script_say(ncclResult_t code, const char *text);
void script_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- collectives.c ---- */

enum kind { ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BROADCAST, WINDOW, SEND, RECV };
struct op {
    struct op *next;
    enum kind kind;
    const void *in;
    void *out;
    size_t n; /* elements; bytes, of a WINDOW, whose `in` is the memory and `out` where it is to be written */
    ncclDataType_t type;
    int peer;    /* or the root */
    size_t done; /* bytes, of a SEND or RECV */
};

struct mapped;
bool mapped_create(const char *name);
struct mapped *mapped_open(const char *name, int rank, int size, const atomic_bool *is_aborted);
void mapped_close(struct mapped *m);
bool mapped_all_joined(struct mapped *m);

/* Every rank shows a number; true: all have shown the same. It is a barrier, too. */
bool mapped_same(struct mapped *m, uint64_t number);

/* Carries a group out; gives up when the communicator is aborted. */
void move_group(ncclComm_t c, struct op *ops);

/* ---- libnccl.c: communicators ---- */

struct group {
    struct group *next;
    struct op *ops;
};

struct ncclComm {
    int rank, size;
    struct mapped *mapped;
    atomic_bool is_aborted, is_ready; /* ready: the state has been ncclSuccess since the last call */
    atomic_bool is_windowing;         /* ncclCommWindowRegister has been called, and is not over */
    bool is_hanging, is_finalized;
    int polls;      /* for which the state stays ncclInProgress */
    atomic_int async_code;
    atomic_int n_registered;
    char name[NCCL_UNIQUE_ID_BYTES];
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    struct group *first; /* not yet done */
    bool stop;
};

ncclResult_t comm_check_ready(ncclComm_t c);
ncclResult_t comm_answer(ncclComm_t c, struct answer a); /* ncclInProgress, or what is scripted */
void comm_enqueue(ncclComm_t c, struct op *ops);

/* ---- memory.c: "device memory", as the emulated CUDA runtime takes it for (cudaemu/foreign.h), and what is registered
 * of it ---- */

void memory_window(ncclComm_t c, const struct op *o); /* carries a WINDOW out */
int64_t memory_offset(ncclComm_t c, const void *p);   /* in its window; -1: it lies in none */
void memory_forget(ncclComm_t c);                      /* c is aborted, with what it has registered */

size_t type_size(ncclDataType_t t);
const char *type_name(ncclDataType_t t);

#endif
