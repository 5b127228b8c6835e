#include "topology/devices.h"

#include <errno.h>
#include <string.h>

#include "runtime/base/begins.h"

enum { ITEM_MAX = 96 }; /* a MIG instance's name has some 60 characters */

struct items {
    size_t n;
    char text[INVENTORY_GPUS_MAX][ITEM_MAX];
};

static int split(const char *list, struct items *ret, ddp_error_t *errp)
{
    ret->n = 0;
    if (!list || !*list)
        return 0;
    for (const char *p = list;; p++) {
        size_t len = strcspn(p, ",");
        if (len == 0)
            return error_set(errp, DDP_E_DATA, EINVAL, "the list of GPUs \"%.80s\" has an empty item", list);
        if (len >= ITEM_MAX)
            return error_set(errp, DDP_E_DATA, EINVAL, "the list of GPUs names \"%.80s...\", which is no GPU", p);
        if (ret->n == INVENTORY_GPUS_MAX)
            return error_set(errp, DDP_E_DATA, E2BIG, "the list of GPUs \"%.80s\" has more than %d", list,
                             INVENTORY_GPUS_MAX);
        memcpy(ret->text[ret->n], p, len);
        ret->text[ret->n++][len] = 0;
        p += len;
        if (!*p)
            return 0;
    }
}

enum kind { KIND_NONE, KIND_NUMBER, KIND_GPU, KIND_MIG };

static enum kind kind_of(const char *item)
{
    if (strspn(item, "0123456789") == strlen(item))
        return KIND_NUMBER;
    return begins(item, "GPU-") ? KIND_GPU : begins(item, "MIG-") ? KIND_MIG : KIND_NONE;
}

/* How many items the driver takes: it stops at the first that is no device, of another kind, or there already. */
static size_t count_valid(const struct items *list)
{
    for (size_t i = 0; i < list->n; i++) {
        enum kind kind = kind_of(list->text[i]);
        if (kind == KIND_NONE || kind != kind_of(list->text[0]))
            return i;
        for (size_t k = 0; k < i; k++)
            if (!strcmp(list->text[i], list->text[k]))
                return i;
    }
    return list->n;
}

/* The driver's list; NULL: neither is set. */
static const char *visible(const struct devices_facts *f)
{
    return f->cuda && (f->cuda[0] || !f->rocr || !f->rocr[0]) ? f->cuda : f->rocr;
}

const char *devices_source(const struct devices_facts *f)
{
    const char *list = visible(f);
    if (list)
        return list == f->cuda ? "CUDA_VISIBLE_DEVICES" : "ROCR_VISIBLE_DEVICES";
    return f->step ? "SLURM_STEP_GPUS" : NULL;
}

int devices_list(const struct inventory *inv, const struct devices_facts *f, struct devices *ret, ddp_error_t *errp)
{
    struct items step, seen;
    if (split(f->step, &step, errp) < 0 || split(visible(f), &seen, errp) < 0)
        return -1;
    const struct items *order = visible(f) ? &seen : &step;
    struct devices d = {.n = (int16_t)count_valid(order)};
    if (d.n > 1 && kind_of(order->text[0]) == KIND_MIG) {
        d.n_unused = (int16_t)(d.n - 1);
        d.n = 1;
    }
    bool is_renumbered = visible(f) && step.n == seen.n;
    for (int i = 0; i < d.n; i++) {
        bool is_number = kind_of(order->text[i]) == KIND_NUMBER;
        d.gpu[i] = (int16_t)(inv ? inventory_find_gpu(inv, is_renumbered && is_number ? step.text[i] : order->text[i])
                                 : -1);
    }
    *ret = d;
    return 0;
}
