#include "t/unit/spank/making.h"

struct environment make_with(struct vars *v, const char *option, struct environment_place place)
{
    struct environment env;
    struct keys o;
    struct step s;
    ddp_error_t e = {0};
    if (keys_resolve(option, lookup, v, NULL, &o, &e) < 0 || step_read(lookup, v, 2, &s, &e) < 0 ||
        environment_make(&s, &o, &place, &(struct port_ephemeral){{32768, 60999}, ""}, lookup, v, &env, &e) < 0)
        fail_msg("%s", e.text);
    for (size_t i = 0; i < env.n_vars; i++)
        put(v, env.var[i].name, env.var[i].value);
    put(v, "DDP_SET", env.set);
    return env;
}

struct environment make(struct vars *v, const char *option)
{
    return make_with(v, option, (struct environment_place){.n_cpus = 4, .n_cores = 4, .n_sharing = 1, .n_same = 1,
                                                           .device = -1});
}

struct vars one_task_a_node(const char *gpus)
{
    struct vars v = plain_step();
    put(&v, "SLURM_STEP_NUM_TASKS", "2");
    put(&v, "SLURM_PROCID", "1");
    put(&v, "SLURM_STEP_TASKS_PER_NODE", "1(x2)");
    if (gpus)
        put(&v, "CUDA_VISIBLE_DEVICES", gpus);
    return v;
}
