/* manifest.h - manifest.json: what makes a checkpoint one. Pure.
 *
 * A checkpoint without a manifest does not exist. It names every other file with its size and checksum, every tensor
 * with its checksum (checksum.h), and what training needs to go on. Its own checksum is its last member, over all bytes
 * before that member's value. */
#ifndef DDP_RUNTIME_CKPT_MANIFEST_H
#define DDP_RUNTIME_CKPT_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/files.h"

#define MANIFEST_NAME "manifest.json"
#define MANIFEST_VERSION 1
#define MANIFEST_TEXT_MAX 511
#define MANIFEST_MIB_MAX 32 /* more is neither written nor read; 131072 tensors of 80 characters have 31 MiB */
#define MANIFEST_BYTES_MAX ((size_t)MANIFEST_MIB_MAX << 20)
#define MANIFEST_HEAD_MIB_MAX 256 /* of a file's head, or a small file, which is read as one piece: likewise */
#define MANIFEST_HEAD_BYTES_MAX ((size_t)MANIFEST_HEAD_MIB_MAX << 20)

/* Where training is, and what its bits depend on. Texts are one line, empty where unknown. */
struct manifest_state {
    uint64_t step;
    int n_skipped;           /* steps skipped in a row, up to here */
    int world_size, n_nodes; /* of the job that wrote it */
    struct {
        uint64_t n_samples, seed, epoch, cursor; /* samples of that epoch that are taken, over all ranks */
        uint64_t batch;
        int accum, shards;
        char order[16];      /* "ledger", "distributed" */
    } data;                  /* n_samples 0: no data were opened */
    char optimizer[MANIFEST_TEXT_MAX + 1]; /* optimizer_text(): rates and schedule, KEY=VALUE, "\n" between them */
    char cpu[128], kernels[64], products[64]; /* "AMD EPYC 9B14", "AVX-512" or
                                                 "CUDA sm_90 (NVIDIA H200)", "own AVX-512" */
    char noted_data[128];    /* which files the samples are read from: "2 files of 70298 bytes, 1a2b3c4d5e6f7081" */
    char summed_over[61];    /* what the bits of sums over the ranks depend on: "ranks" or, with their places on the
                                nodes, "nodes 3,1" (comm_plan_order) */
    int n_threads;           /* per rank; not compared: no kernel's bits depend on it, and `ddp run` gives another one
                                to every number of ranks */
    char reason[16];         /* "periodic", "stop", "deadline", "request" */
    char saved_at[32];       /* UTC, 2026-11-21T20:15:02Z */
    char software[64];       /* "slurm-ddp 0.1.0" */
    double trained_s;        /* wall time in steps, over all runs of this training */
    int n_runs, n_failures;  /* runs so far; runs whose last checkpoint was periodic, since they failed */
    struct {
        int micro;           /* micro-steps done in the step after `step`; 0: none, and no tensors of it are there */
        int n_ranks;
        double scale;        /* losses were multiplied by it; 0: not known, 1 then */
    } cut;
    struct {
        double scale;        /* 0: losses are not scaled, or the scale is constant */
        int n_good;          /* steps since the scale changed */
    } loss_scale;
};

struct manifest_file {
    char name[FILES_NAME_MAX + 1];
    uint64_t n_bytes;
    uint64_t head_bytes; /* of a safetensors file; a small file: n_bytes */
    uint64_t checksum;   /* checksum_bytes of the first head_bytes */
};

struct manifest_tensor {
    struct files_tensor at; /* .file is an index into file */
    uint64_t checksum;
};

struct manifest {
    struct manifest_state state;
    struct manifest_file *file; /* [n_files]: large ones, then small ones */
    size_t n_files;
    struct manifest_tensor *tensor; /* [n_tensors] */
    size_t n_tensors;
};

/* From the files and the tensors' checksums [f->n_tensors]. manifest_clear frees. */
int manifest_make(struct manifest *ret, const struct files *f, const uint64_t *checksum,
                  const struct manifest_state *state, ddp_error_t *errp);
void manifest_clear(struct manifest *m); /* a zeroed struct is allowed */

/* The text of the file, of any length; malloc, the caller frees. NULL: no memory. */
char *manifest_encode(const struct manifest *m, size_t *ret_bytes);

/* Reads text[0..n), which may come from anyone. Refuses whatever manifest_encode would not write, except for members
 * that it does not know, and checks files and tensors against each other: every tensor must lie in a file, after the
 * file's head, and the tensors of a file must fill it without a gap. DDP_E_DATA; the error for a later version of the
 * format says that it is one. Whatever the text, this takes no more than 384 MiB of memory (json_limit.h, and 0.4 KiB
 * for each tensor). */
int manifest_decode(const char *text, size_t n, struct manifest *ret, ddp_error_t *errp);

#endif
