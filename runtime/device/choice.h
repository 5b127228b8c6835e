/* choice.h - which device a rank computes on, and whether two ranks have the same one. Pure. */
#ifndef DDP_RUNTIME_DEVICE_CHOICE_H
#define DDP_RUNTIME_DEVICE_CHOICE_H

#include "runtime/device/device.h"

enum device_wish { DEVICE_WISH_AUTO, DEVICE_WISH_CPU, DEVICE_WISH_CUDA };

/* Parses "auto", "cpu", "cuda", or the number of a GPU as cudaSetDevice counts. A number, which is what the plugin
 * sets, gives DEVICE_WISH_AUTO and *ret_ordinal; else *ret_ordinal is -1. 0, or -1: the text is none of these; the
 * error names `source` (DDP_DEVICE, --device). */
int device_wish_parse(const char *text, const char *source, enum device_wish *ret_wish, int *ret_ordinal,
                      ddp_error_t *errp);

struct device_facts {
    enum device_wish wish;
    int named;             /* the GPU that DDP_DEVICE names; -1: none */
    int n_gpus;            /* GPUs that this process sees */
    const char *why_none;  /* n_gpus 0: why (device_cuda_count) */
    const char *visible;   /* CUDA_VISIBLE_DEVICES, for errors; NULL: not set */
    int local_rank;
};

struct device_choice {
    enum device_kind kind;
    int ordinal;
    bool is_demanded; /* the user accepts nothing but a GPU */
    char note[256]; /* a line for the user if auto chose the processor for lack of a GPU; else "" */
};

/* Chooses the GPU that is named, else GPU local_rank modulo n_gpus. (Ranks that see one GPU each all see it as number
 * 0; device_compare finds out whether two of them share one.) 0, or -1 with DDP_E_USAGE: a GPU is demanded and none can
 * be used, or a GPU is named that is not there. */
int device_choose(const struct device_facts *f, struct device_choice *ret, ddp_error_t *errp);

/* The device that a rank has, for exchange between ranks: fixed size, no pointers. */
struct device_id {
    int32_t rank, node;
    int32_t kind;    /* enum device_kind */
    char gpu[64];    /* device_info's uuid, or its bus_id where there is none */
    char bus_id[16]; /* for errors */
};
struct device_id device_id_of(const struct device_info *info, int rank, int node);

/* Compares the ids of all n ranks. 0: no two ranks have the same GPU; 1: two have, and may_share allows it; -1 with
 * DDP_E_USAGE: two have, and may_share does not allow it, or some ranks compute on GPUs and others do not. The error
 * names both ranks. MIG slices of one GPU count as different GPUs. */
int device_compare(const struct device_id *ids, int n, bool may_share, ddp_error_t *errp);

#endif
