#include "runtime/device/choice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/num.h"

#define ORDINAL_MAX 1023

int device_wish_parse(const char *text, const char *source, enum device_wish *ret_wish, int *ret_ordinal,
                      ddp_error_t *errp)
{
    static const char *const words[] = {[DEVICE_WISH_AUTO] = "auto", [DEVICE_WISH_CPU] = "cpu",
                                        [DEVICE_WISH_CUDA] = "cuda"};
    int ordinal = -1, wish = -1;
    for (int i = 0; i < 3; i++)
        wish = strcmp(text, words[i]) ? wish : i;
    if (wish < 0 && num_int(text, 0, ORDINAL_MAX, &ordinal) < 0)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s=%.40s is not allowed: use auto, cpu, cuda or the number of a "
                                                    "GPU",
                         source, text);
    *ret_wish = wish < 0 ? DEVICE_WISH_AUTO : (enum device_wish)wish;
    *ret_ordinal = ordinal;
    return 0;
}

int device_choose(const struct device_facts *f, struct device_choice *ret, ddp_error_t *errp)
{
    struct device_choice c = {.kind = DEVICE_CPU, .is_demanded = f->wish == DEVICE_WISH_CUDA};
    if (f->wish == DEVICE_WISH_CUDA && f->n_gpus == 0)
        return error_set(errp, DDP_E_USAGE, ENODEV, "a GPU is asked for (device cuda), but %.160s", f->why_none);
    if (f->wish != DEVICE_WISH_CPU && f->n_gpus == 0)
        snprintf(c.note, sizeof c.note, "no GPU, training on the processor: %.180s", f->why_none);
    else if (f->wish != DEVICE_WISH_CPU) {
        if (f->named >= f->n_gpus)
            return error_set(errp, DDP_E_USAGE, ENODEV, "DDP_DEVICE names GPU %d, but this process sees %d "
                             "(CUDA_VISIBLE_DEVICES=%.60s): they count from 0", f->named, f->n_gpus,
                             f->visible ? f->visible : "(unset)");
        c.kind = DEVICE_CUDA;
        c.ordinal = f->named >= 0 ? f->named : f->local_rank % f->n_gpus;
    }
    *ret = c;
    return 0;
}

struct device_id device_id_of(const struct device_info *info, int rank, int node)
{
    struct device_id id = {.rank = rank, .node = node, .kind = (int32_t)info->kind};
    snprintf(id.gpu, sizeof id.gpu, "%s", info->uuid[0] ? info->uuid : info->bus_id);
    snprintf(id.bus_id, sizeof id.bus_id, "%s", info->bus_id);
    return id;
}

static bool is_same_gpu(const struct device_id *a, const struct device_id *b)
{
    return a->kind == DEVICE_CUDA && b->kind == DEVICE_CUDA && a->node == b->node && !strcmp(a->gpu, b->gpu);
}

static int refuse_sharing(const struct device_id *a, const struct device_id *b, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_USAGE, EINVAL, "ranks %d and %d of node %d both have the GPU %s: start one rank a "
                     "GPU, or say --ddp-share-device=on if that is meant", a->rank, b->rank, b->node, b->bus_id);
}

int device_compare(const struct device_id *ids, int n, bool may_share, ddp_error_t *errp)
{
    for (int i = 1; i < n; i++)
        if (ids[i].kind != ids[0].kind) {
            const struct device_id *gpu = ids[0].kind == DEVICE_CUDA ? &ids[0] : &ids[i];
            const struct device_id *cpu = gpu == &ids[0] ? &ids[i] : &ids[0];
            return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d computes on a GPU (%s) and rank %d on its processor: "
                             "give every rank a GPU, or all --ddp-device=cpu", gpu->rank, gpu->bus_id, cpu->rank);
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (is_same_gpu(&ids[j], &ids[i]))
                return may_share ? 1 : refuse_sharing(&ids[j], &ids[i], errp);
    return 0;
}
