#include "t/unit/spank/vars.h"

const char *lookup(const char *name, void *arg)
{
    struct vars *v = arg;
    for (int i = 0; i < v->n; i++)
        if (!strcmp(v->name[i], name))
            return v->value[i];
    return NULL;
}

void put(struct vars *v, const char *name, const char *value)
{
    int i = 0;
    while (i < v->n && strcmp(v->name[i], name))
        i++;
    assert_true(i < VARS_MAX);
    snprintf(v->name[i], sizeof v->name[i], "%s", name);
    snprintf(v->value[i], sizeof v->value[i], "%s", value);
    v->n += i == v->n;
}

void drop(struct vars *v, const char *name)
{
    for (int i = 0; i < v->n; i++)
        if (!strcmp(v->name[i], name))
            v->name[i][0] = 0;
}

struct vars plain_step(void)
{
    static const char *const pairs[][2] = {
        {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"},         {"SLURM_LOCALID", "0"},
        {"SLURM_NODEID", "1"},        {"SLURM_STEP_NUM_NODES", "2"},  {"SLURM_STEP_NODELIST", "n[1-2]"},
        {"SLURMD_NODENAME", "n2"},    {"SLURM_JOB_ID", "100"},        {"SLURM_STEP_ID", "3"},
        {"SLURM_CPUS_ON_NODE", "8"},  {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
    };
    struct vars v = {0};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        put(&v, pairs[i][0], pairs[i][1]);
    return v;
}
