#include "runtime/train/start.h"

#include <inttypes.h>
#include <stdio.h>

#include "runtime/base/num.h"
#include "runtime/train/account.h"

static double mib(size_t bytes)
{
    return (double)bytes / 1048576;
}

/* What a rank allocates, against what its device had before. On the processor the ranks of a node share that. */
static void say_memory(const ddp_t *d, const struct job *j, const struct ddp_device *device)
{
    struct ddp_memory m = ddp_memory(d);
    const struct {
        const char *name;
        size_t bytes;
    } parts[] = {{"parameters", m.values}, {"gradients", m.grads}, {"moments", m.moments},
                 {j->dtype == DDP_F16 ? "parameters in f16" : "parameters in bf16", m.copies},
                 {"activations", lm_about(&j->model).activation_bytes},
                 {"partial sums", m.partials}, {"buckets beside the gradients", m.encoded},
                 {"snapshot of a checkpoint", device->is_gpu ? 0 : m.snapshot}};
    int n = device->is_gpu ? 1 : ddp_world(d)->local_size;
    size_t all = 0, had = device->is_gpu ? lm_about(&j->model).memory_free : device->memory_free;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        all += parts[i].bytes;
    printf("memory: %.1f MiB a rank", mib(all));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].bytes)
            printf("%s%s %.1f", i ? ", " : ": ", parts[i].name, mib(parts[i].bytes));
    if (device->is_gpu && had)
        printf("; its GPU had %.1f free", mib(had));
    else if (had)
        printf("; %.1f MiB for %d rank%s here, %.1f were free%s", mib(all) * n, n, PLURAL(n), mib(had),
               mib(all) * n > mib(had) ? ", which may be too little" : "");
    printf("\n");
}

void start_say(const ddp_t *d, const struct job *j, const struct ddp_device *device)
{
    const struct ddp_world *w = ddp_world(d);
    struct ddp_memory m = ddp_memory(d);
    struct lm_about about = lm_about(&j->model);
    size_t n = 0;
    for (size_t i = 0; i < j->model.n_params; i++)
        n += ddp_param_get(d, (int)i).n_elems;
    printf("%d rank%s on %d node%s, %zu parameters, %" PRIu64 " samples of %zu tokens, %zu validation "
           "window%s, %s%s%s\n", w->size, PLURAL(w->size), w->n_nodes, PLURAL(w->n_nodes), n, j->n_samples,
           j->o.model.context, j->model.n_windows, PLURAL(j->model.n_windows), about.products,
           device->is_gpu ? " on " : "", device->name);
    account_say_batch(d, j);
    if (j->o.shards)
        printf("%d shards, %d a rank: %zu bytes (%.1f MiB) of partial sums beside %zu of gradients\n", j->o.shards,
               j->o.shards / w->size, m.partials, mib(m.partials), m.grads);
    if (m.moments < m.moments_all)
        printf("optimizer state: %zu bytes (%.1f MiB) on rank 0 of %zu (%.1f MiB) on all\n", m.moments, mib(m.moments),
               m.moments_all, mib(m.moments_all));
    if (j->o.model.recompute)
        printf("activations: %zu bytes (%.1f MiB) a rank, instead of %zu (%.1f MiB) without --recompute\n",
               about.activation_bytes, mib(about.activation_bytes), about.kept_bytes, mib(about.kept_bytes));
    say_memory(d, j, device);
    if (device->note[0])
        printf("%s\n", device->note);
    fflush(stdout);
}
