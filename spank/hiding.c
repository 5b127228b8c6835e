#include "spank/hiding.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/begins.h"

struct option {
    const char *name, *value;
};

static struct option find(const char *flag, const char *value, const char *variable, lookup_f lookup, void *arg)
{
    if (value)
        return (struct option){flag, value};
    return (struct option){variable, lookup(variable, arg)};
}

/* "none", "verbose,none" and "v,none" bind nothing. */
static bool binds(const char *value)
{
    const char *last = strrchr(value, ',');
    return strcmp(last ? last + 1 : value, "none") != 0;
}

/* --tres-bind holds several: "gres/gpu:closest+gres/nic:none"; elsewhere GPUs are "gres/gpu" or "gres:gpu". */
static const char *find_gpu(const char *tres)
{
    const char *gpu = strstr(tres, "gpu");
    return gpu ? gpu + 3 + (gpu[3] == ':') : NULL;
}

bool hiding_warn(const struct cmdline *c, lookup_f lookup, void *arg, char *buf, size_t size)
{
    struct option bind = find("--gpu-bind", c->gpu_bind, "SLURM_GPU_BIND", lookup, arg);
    struct option tres_bind = find("--tres-bind", c->tres_bind, "SLURM_TRES_BIND", lookup, arg);
    const struct option per[] = {
        find("--gpus-per-task", c->gpus_per_task, "SLURM_GPUS_PER_TASK", lookup, arg),
        find("--ntasks-per-gpu", c->ntasks_per_gpu, "SLURM_NTASKS_PER_GPU", lookup, arg),
        find("--tres-per-task", c->tres_per_task, "SLURM_TRES_PER_TASK", lookup, arg),
    };
    const char *per_node = find("", c->ntasks_per_node, "SLURM_NTASKS_PER_NODE", lookup, arg).value, *guilty = NULL;
    const char *visible = lookup("CUDA_VISIBLE_DEVICES", arg);
    if ((per_node && !strcmp(per_node, "1")) || (visible && begins(visible, "MIG-")))
        return false;
    const char *gpu = !bind.value && tres_bind.value ? find_gpu(tres_bind.value) : NULL;
    /* Since 24.05 sbatch makes SLURM_TRES_PER_TASK of --gpus-per-task, and this beside it. */
    if (gpu && (c->tres_bind || !begins(gpu, "per_task")))
        bind = (struct option){tres_bind.name, gpu};
    if (bind.value && binds(bind.value))
        guilty = bind.name;
    for (size_t i = 0; !bind.value && !guilty && i < sizeof per / sizeof *per; i++)
        if (per[i].value && (i < 2 || find_gpu(per[i].value)))
            guilty = per[i].name;
    if (guilty)
        snprintf(buf, size,
                 "%s hides from each rank the GPUs of the others, so that NCCL cannot go peer-to-peer between "
                 "them and loses much of its speed: write --gpus-per-node=N in its place (not for MIG instances), and "
                 "--ddp gives each rank its own",
                 guilty);
    return guilty;
}
