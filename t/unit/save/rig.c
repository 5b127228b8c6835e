#include "config.h"
#include "t/unit/save/rig.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "t/lib/folder.h"

/* Elements: less than a checkpoint's block, one, many blocks and a bit, one block. */
static const size_t elems[RIG_PARAMS] = {3000, 1, 40003, 4096};
static const int one_node[RANKS_MAX], two_nodes[RANKS_MAX] = {0, 0, 1, 1};

struct rig_guard rig_guard[RANKS_MAX];

static int open_state(struct rig *r, const struct rig_plan *p, ddp_error_t *errp)
{
    const struct ddp_optimizer optimizer = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .rule = p->rule};
    const struct reducer_config cfg = {.n_ranks = r->team.me.size, .first_cap_bytes = 1, .cap_bytes = 50000,
                                       .is_fixed = p->is_spread};
    const struct data_config data = {.n_samples = p->n_samples ? p->n_samples : RIG_SAMPLES, .seed = 11, .batch = 2,
                                     .rank = r->team.me.rank, .n_ranks = r->team.me.size, .accum = 1};
    struct state *s = &r->state;
    for (int i = 0; i < (p->n_params ? p->n_params : RIG_PARAMS); i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        if (layout_add(&s->layout, i == 1 && p->rename ? p->rename : name, DDP_F32, &elems[i], 1, 0, errp) < 0)
            return -1;
    }
    if (optimizer_open(&s->optimizer, &optimizer, errp) < 0 ||
        reducer_open(&s->reducer, r->team.comm, &s->layout, &cfg, errp) < 0)
        return -1;
    if (arena_cpu_open(&s->arena, r->team.comm, &s->reducer, &s->optimizer, &r->team.me, p->is_spread, errp) < 0)
        return -1;
    return data_open(&s->data, &data, errp);
}

int rig_open(struct rig *r, struct job *j, int rank, ddp_error_t *errp)
{
    *r = (struct rig){0};
    comm_t *c = config_load(&r->config, NULL, NULL, errp) < 0 ? NULL : job_comm(j, rank, &r->world, errp);
    if (!c)
        return -1;
    r->team = team_of(r->world, c, 30);
    r->save = (struct save){.team = &r->team, .state = &r->state, .config = &r->config};
    if (((const struct rig_plan *)j->arg)->has_guards)
        r->save.recall.handover = (struct handover){.is_there = true, .guard = dup(rig_guard[rank].pair[1]),
                                                    .memory = {dup(rig_guard[rank].memory[0]),
                                                               dup(rig_guard[rank].memory[1])},
                                                    .generation = ((const struct rig_plan *)j->arg)->generation};
    return open_state(r, j->arg, errp);
}

void rig_close(struct rig *r)
{
    comm_destroy(r->team.comm);
    scheduler_close(&r->save);
    cut_close(&r->save);
    checkpoint_close(&r->save);
    data_close(&r->state.data);
    arena_close(&r->state.arena);
    optimizer_close(&r->state.optimizer);
    reducer_close(&r->state.reducer);
    layout_clear(&r->state.layout);
    world_destroy(r->world);
}

/* ---- what is saved: values and moments that follow from the element, a place in the data, a step ---- */

static float expected(int kind, int id, size_t i)
{
    return sinf((float)(kind * 7919 + id * 104729) + (float)i);
}

float *rig_values(const struct rig *r, int id)
{
    return r->state.arena.values + r->state.layout.param[id].offset_bytes / sizeof(float);
}

static size_t first_of(const struct rig *r, const struct optimizer_slice *s)
{
    return s->at - r->state.layout.param[s->id].offset_bytes / sizeof(float);
}

void rig_fill(struct rig *r)
{
    struct optimizer *o = &r->state.optimizer;
    struct data_batch b;
    for (int id = 0; id < RIG_PARAMS; id++)
        for (size_t i = 0; i < elems[id]; i++)
            rig_values(r, id)[i] = expected(0, id, i);
    for (const struct optimizer_slice *s = o->slice; s < o->slice + o->n_slices; s++)
        for (int k = 0; k < o->rule->n_moments; k++)
            for (size_t i = 0; i < s->n_elems; i++)
                o->moment[k][s->state + i] = expected(1 + k, s->id, first_of(r, s) + i);
    o->n_steps = RIG_STEP;
    for (int left = RIG_STEP; left > 0; left -= b.is_last)
        b = data_next(&r->state.data);
}

bool rig_is_filled(const struct rig *r, const struct data_position *at)
{
    const struct optimizer *o = &r->state.optimizer;
    const struct data_position here = data_position(&r->state.data);
    for (int id = 0; id < RIG_PARAMS; id++)
        for (size_t i = 0; i < elems[id]; i++)
            if (rig_values(r, id)[i] != expected(0, id, i))
                return false;
    for (const struct optimizer_slice *s = o->slice; s < o->slice + o->n_slices; s++)
        for (int k = 0; k < o->rule->n_moments; k++)
            for (size_t i = 0; i < s->n_elems; i++)
                if (o->moment[k][s->state + i] != expected(1 + k, s->id, first_of(r, s) + i))
                    return false;
    return o->n_steps == RIG_STEP && here.epoch == at->epoch && here.cursor == at->cursor;
}

/* The next step is cut behind its first micro-step. */
static int cut(struct rig *r, ddp_error_t *errp)
{
    if (cut_take_memory(&r->save, errp) < 0)
        return -1;
    memset(r->save.cut.grads, 0, r->state.layout.n_bytes);
    r->save.cut.micro = 1;
    r->save.cut.is_kept = true;
    return 0;
}

int rig_save_rank(struct job *j, int rank)
{
    const struct rig_plan *p = j->arg;
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(!p->is_cut || cut(&r, &e) == 0, "%s", e.text);
    CHECK(checkpoint_take(&r.save, test_folder, NULL, &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.phase == CHECKPOINT_SAVING, "phase %d", (int)r.save.checkpoint.phase);
    CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.status.n_committed == 1, "%s", r.save.checkpoint.status.warning);
    if (rank == 0)
        *(struct data_position *)j->shared = data_position(&r.state.data);
    rig_close(&r);
    return 0;
}

bool rig_save(struct rig *r, uint64_t step, const char *dir)
{
    ddp_error_t e = {0};
    uint64_t before = r->save.checkpoint.status.n_committed;
    r->state.optimizer.n_steps = step;
    if (checkpoint_take(&r->save, dir, NULL, &e) < 0 || checkpoint_settle(&r->save, &e) < 0)
        print_message("# %s\n", e.text);
    return r->save.checkpoint.status.n_committed > before;
}

bool rig_run(rank_f *f, int size, const struct rig_plan *p)
{
    struct job j = {.size = size, .node_of = p->on_two_nodes ? two_nodes : one_node, .arg = p};
    return job_run(&j, f);
}

bool rig_has(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    return access(path, F_OK) == 0;
}

void rig_damage(const char *name)
{
    char path[200];
    unsigned char byte = 0;
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, 100000) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 100000), 1);
    close(fd);
}
