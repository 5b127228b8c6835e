/* choice.h - which device a rank computes on, and whether two ranks got the same. Pure. */
#ifndef DDP_RUNTIME_DEVICE_CHOICE_H
#define DDP_RUNTIME_DEVICE_CHOICE_H

#include "runtime/device/device.h"

enum device_wish { DEVICE_WISH_AUTO, DEVICE_WISH_CPU, DEVICE_WISH_CUDA };

/* "auto", "cpu", "cuda", or the number of a GPU as cudaSetDevice counts, which is what the plugin sets: auto, with
 * that GPU. 0, or -1: the text is none of them, `source` (DDP_DEVICE, --device) gave it. *ret_ordinal is -1 where
 * none is named. */
int device_wish_parse(const char *text, const char *source, enum device_wish *ret_wish, int *ret_ordinal,
                      ddp_error_t *errp);

struct device_facts {
    enum device_wish wish;
    int named;             /* the GPU that DDP_DEVICE names; -1: none */
    int n_gpus;            /* visible to this process; 0: */
    const char *why_none;  /* then why (device_cuda_count) */
    const char *visible;   /* CUDA_VISIBLE_DEVICES, for errors; NULL: not set */
    int local_rank;
};

struct device_choice {
    enum device_kind kind;
    int ordinal;
    bool is_demanded; /* nothing but a GPU will do */
    char note[256]; /* one line for people where auto fell back to the processor; else "" */
};

/* The GPU that is named; else local_rank modulo n_gpus: ranks that see one GPU each all have it as 0, and whether
 * two of them share one is device_compare's to find. 0, or -1 with DDP_E_USAGE: a GPU is wished for and none can be
 * used, or one is named that is not there. */
int device_choose(const struct device_facts *f, struct device_choice *ret, ddp_error_t *errp);

/* What a rank got, to be exchanged: fixed size, no pointers. */
struct device_id {
    int32_t rank, node;
    int32_t kind;    /* enum device_kind */
    char gpu[64];    /* device_info's uuid, or its bus_id where there is none */
    char bus_id[16]; /* for errors */
};
struct device_id device_id_of(const struct device_info *info, int rank, int node);

/* The ids of all n ranks. -1 with DDP_E_USAGE: two ranks of a node have one GPU and may not (may_share), or some
 * ranks compute on GPUs and others do not; both ranks are named. 1: two have one GPU, and may; 0: none have. MIG slices of
 * one GPU are GPUs of their own. */
int device_compare(const struct device_id *ids, int n, bool may_share, ddp_error_t *errp);

#endif
