#include "spank/layout.h"

#include <dlfcn.h>
#include <slurm/slurm.h>
#include <string.h>

/* srun's own. They are looked up when they are needed: slurmstepd, which loads the plugin too, may lack them. */
struct api {
    __typeof__(slurm_job_step_layout_get) *get;
    __typeof__(slurm_job_step_layout_free) *free;
};

static int load(struct api *api)
{
    void *get = dlsym(RTLD_DEFAULT, "slurm_job_step_layout_get");
    void *free = dlsym(RTLD_DEFAULT, "slurm_job_step_layout_free");
    if (!get || !free)
        return -1;
    memcpy(&api->get, &get, sizeof get);
    memcpy(&api->free, &free, sizeof free);
    return 0;
}

/* The place in the list of the node that has task 0; -1: none has. */
static int find_first(const slurm_step_layout_t *l)
{
    for (uint32_t i = 0; i < l->node_cnt; i++)
        for (uint32_t t = 0; t < l->tasks[i]; t++)
            if (l->tids[i][t] == 0)
                return (int)i;
    return -1;
}

/* As many ranks on each node, in a row, in the order in which step.c numbers nodes: the one of rank 0 before all. */
static bool is_even(const slurm_step_layout_t *l, uint32_t first)
{
    uint32_t next = l->tasks[first];
    for (uint32_t i = 0; i < l->node_cnt; i++) {
        uint32_t from = i == first ? 0 : next;
        if (l->tasks[i] != l->tasks[first])
            return false;
        for (uint32_t t = 0; t < l->tasks[i]; t++)
            if (l->tids[i][t] != from + t)
                return false;
        next += i == first ? 0 : l->tasks[i];
    }
    return true;
}

static inline slurm_step_id_t step_id(uint32_t job, uint32_t step)
{
    slurm_step_id_t id;
    memset(&id, 0, sizeof id);
    id.job_id = job;
    id.step_id = step;
    id.step_het_comp = NO_VAL;
    return id;
}

int layout_first_node(uint32_t job, uint32_t step, char ret[HOSTLIST_NAME_MAX + 1], bool *ret_is_even)
{
    struct api api;
    slurm_step_id_t id = step_id(job, step);
    if (load(&api) < 0)
        return -1;
    slurm_step_layout_t *l = api.get(&id);
    int at = l && l->node_list ? find_first(l) : -1;
    int rc = at >= 0 ? hostlist_nth(l->node_list, (size_t)at, ret, NULL) : -1;
    *ret_is_even = rc < 0 || is_even(l, (uint32_t)at);
    if (l)
        api.free(l);
    return rc;
}

/* How slurm_get_end_time takes a job: by its number; in 26.05 by a step of it. */
static inline uint32_t by_number(uint32_t job)
{
    return job;
}

static inline slurm_step_id_t by_step(uint32_t job)
{
    return step_id(job, NO_VAL);
}

int layout_end_time(uint32_t job, int64_t *ret)
{
    __typeof__(slurm_get_end_time) *get;
    time_t end = 0;
    void *found = dlsym(RTLD_DEFAULT, "slurm_get_end_time");
    if (!found)
        return -1;
    memcpy(&get, &found, sizeof get);
    if (get(_Generic(get, int (*)(uint32_t, time_t *): by_number, default: by_step)(job), &end) != 0 || end <= 0)
        return -1;
    *ret = (int64_t)end;
    return 0;
}
