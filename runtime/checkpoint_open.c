/* checkpoint_open.c - before the first checkpoint: what is written by whom, memory, and the folder. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/budget.h"
#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/store.h"
#include "runtime/handle.h"

/* ---- the plan ---- */

static const char *const suffix[CHECKPOINT_ARENAS] = {"", ".exp_avg", ".exp_avg_sq"};

/* The layout's parameters as tensors NAME.SUFFIX, into t[0..n). */
static void name_tensors(const struct layout *l, const char *end, struct st_tensor *t)
{
    for (int i = 0; i < l->n; i++) {
        const struct layout_param *p = &l->param[i];
        t[i] = (struct st_tensor){.dtype = ST_F32, .ndim = p->ndim};
        snprintf(t[i].name, sizeof t[i].name, "%s%s", p->name, end);
        for (int k = 0; k < p->ndim; k++)
            t[i].shape[k] = p->shape[k];
    }
}

static int make_files(ddp_t *d, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    size_t n = (size_t)d->layout.n;
    bool has_moments = !d->optimizer.cfg.sgd;
    struct st_tensor *t = calloc(3 * n + 1, sizeof *t), *window = NULL;
    size_t n_window = 0;
    if (!t)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the names of %zu tensors", 3 * n);
    for (size_t a = 0; a < CHECKPOINT_ARENAS; a++)
        name_tensors(&d->layout, suffix[a], t + a * n);
    struct files_group group[3] = {{"model", t, n}, {"optimizer", t + n, 2 * n}};
    int n_groups = has_moments ? 2 : 1, rc = window_tensors(d, &window, &n_window, errp);
    if (rc == 0 && n_window)
        group[n_groups++] = (struct files_group){"window", window, n_window};
    c->plan.has_window = n_window > 0;
    if (rc == 0)
        rc = files_make(&c->plan.files, group, n_groups, config_ckpt_file_bytes(&d->config), errp);
    free(window);
    free(t);
    for (int i = 0; rc == 0 && i < c->n_attached; i++)
        rc = files_attach(&c->plan.files, c->attached[i].name, c->attached[i].text, errp);
    return rc;
}

/* Arenas that every rank holds whole: the values, and moments that are not spread, whose slices are then the
 * parameters. */
static int make_arenas(ddp_t *d, ddp_error_t *errp)
{
    struct checkpoint_plan *plan = &d->checkpoint.plan;
    size_t n = (size_t)d->layout.n;
    char *const base[] = {(char *)d->values, (char *)d->optimizer.m, (char *)d->optimizer.v};
    plan->n_arenas = d->optimizer.cfg.sgd || d->zero.values ? 1 : CHECKPOINT_ARENAS;
    for (int a = 0; a < plan->n_arenas; a++) {
        plan->offset[a] = calloc(n + 1, sizeof *plan->offset[a]);
        if (!plan->offset[a])
            return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu offsets", n);
        for (size_t i = 0; i < n; i++)
            plan->offset[a][i] = a == CHECKPOINT_VALUES ? d->layout.param[i].offset_bytes
                                                        : d->optimizer.slice[i].state * sizeof(float);
        plan->arena[a] = (struct share_arena){base[a], (size_t)a * n, n, plan->offset[a]};
    }
    return 0;
}

/* Spread moments: those of this rank's slices. */
static int share_slices(ddp_t *d, ddp_error_t *errp)
{
    struct checkpoint_plan *plan = &d->checkpoint.plan;
    const struct optimizer *o = &d->optimizer;
    for (size_t i = 0; i < o->n_slices; i++) {
        const struct optimizer_slice *s = &o->slice[i];
        const struct layout_param *p = &d->layout.param[s->id];
        uint64_t at = s->at * sizeof(float) - p->offset_bytes;
        size_t tensor = (size_t)d->layout.n + (size_t)s->id, n = s->n_elems * sizeof(float);
        const struct writer_piece m = {o->m + s->state, tensor, at, n};
        const struct writer_piece v = {o->v + s->state, tensor + (size_t)d->layout.n, at, n};
        if (share_add(&plan->share, &m, errp) < 0 || share_add(&plan->share, &v, errp) < 0)
            return -1;
    }
    return 0;
}

int checkpoint_plan(ddp_t *d, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    struct checkpoint_plan *plan = &c->plan;
    if (plan->is_made)
        return 0;
    if (make_files(d, errp) < 0 || make_arenas(d, errp) < 0)
        return -1;
    for (int a = 0; a < plan->n_arenas; a++)
        if (share_split(&plan->share, &plan->files, &plan->arena[a], d->world.rank, d->world.size, errp) < 0)
            return -1;
    if ((d->optimizer.m && d->zero.values && share_slices(d, errp) < 0) || window_share(d, errp) < 0)
        return -1;
    for (int i = 0; i < plan->files.n_files; i++)
        c->status.bytes += plan->files.file[i].n_bytes;
    for (int i = 0; i < plan->files.n_small; i++)
        c->status.bytes += plan->files.small[i].n_bytes;
    plan->is_made = true;
    if (!c->has_state)
        checkpoint_state_begin(d);
    c->has_state = true;
    return 0;
}

/* The plan, and the memory that follows from it. */
static void drop_plan(struct checkpoint *c)
{
    writer_destroy(c->writer);
    c->writer = NULL;
    files_clear(&c->plan.files);
    share_clear(&c->plan.share);
    for (int a = 0; a < CHECKPOINT_ARENAS; a++)
        free(c->plan.offset[a]);
    c->plan = (struct checkpoint_plan){0};
    c->status.bytes = 0;
}

void checkpoint_close(ddp_t *d)
{
    struct checkpoint *c = &d->checkpoint;
    drop_plan(c);
    committer_reset(&c->committer);
    if (c->is_clean)
        commit_leave(c->dir, c->token);
    for (int i = 0; i < c->n_attached; i++)
        free(c->attached[i].text);
    free(c->attached);
    free(c->sum);
    free(c->dir);
    free(c->resumed_dir);
    *c = (struct checkpoint){0};
}

/* ---- the folder ---- */

/* What a rank finds out: nothing, that the folder cannot be written, or an error. */
enum finding { FINE, UNWRITABLE, WRONG };

int checkpoint_tidy(const char *dir, char ret[FOLDER_PATH_MAX], ddp_error_t *errp)
{
    char *to = ret;
    if (!dir || !*dir || strlen(dir) >= FOLDER_PATH_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "\"%.100s\" is no folder's name", dir ? dir : "");
    if (*dir == '/')
        *to++ = '/';
    for (size_t n; *dir; dir += n, dir += strspn(dir, "/")) {
        n = strcspn(dir, "/");
        if (n == 0 || (n == 1 && *dir == '.'))
            continue;
        if (to > ret && to[-1] != '/')
            *to++ = '/';
        memcpy(to, dir, n);
        to += n;
    }
    if (to == ret)
        *to++ = '.';
    *to = 0;
    return 0;
}

/* A folder that was not there is on disk in the one above it when this returns. */
static int make_one(char *path)
{
    if (mkdir(path, 0777) < 0)
        return errno == EEXIST ? 0 : -1;
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    folder_sync(!slash ? "." : slash == path ? "/" : path, NULL); /* may not be read: then as durable as it gets */
    if (slash)
        *slash = '/';
    return 0;
}

static int make_path(const char *dir, ddp_error_t *errp)
{
    char path[FOLDER_PATH_MAX];
    strcpy(path, dir); /* a tidy name */
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            make_one(path); /* what is wrong with it shows below */
            *p = '/';
        }
    return make_one(path) < 0 ? error_errno(errp, "cannot make the folder %s", dir) : 0;
}

/* commit_clean knows its name. */
static int probe_path(const ddp_t *d, const char *dir, char ret[FOLDER_PATH_MAX], ddp_error_t *errp)
{
    char name[64];
    snprintf(name, sizeof name, ".saving-%s-probe", d->checkpoint.token);
    return folder_path(ret, dir, name, errp);
}

/* Rank 0: the folder is there, no other training's, and can be written. */
static enum finding look_first(const ddp_t *d, const char *dir, ddp_error_t *errp)
{
    const char *resumed = d->checkpoint.resumed_dir;
    char probe[FOLDER_PATH_MAX];
    uint64_t *step;
    size_t n;
    if (make_path(dir, errp) < 0)
        return UNWRITABLE;
    if (store_list(dir, &step, &n, errp) < 0)
        return UNWRITABLE;
    free(step);
    if (n && (!resumed || strcmp(resumed, dir) != 0)) {
        error_set(errp, DDP_E_USAGE, EEXIST, "%.150s has checkpoints already: resume from them (--resume auto), or name "
                  "another folder", dir);
        return WRONG;
    }
    if (probe_path(d, dir, probe, errp) < 0)
        return WRONG;
    if (mkdir(probe, 0777) < 0) {
        error_errno(errp, "cannot write into the folder %s", dir);
        return UNWRITABLE;
    }
    return FINE;
}

static enum finding look_too(const ddp_t *d, const char *dir, ddp_error_t *errp)
{
    char probe[FOLDER_PATH_MAX];
    struct stat st;
    if (probe_path(d, dir, probe, errp) < 0)
        return WRONG;
    if (stat(probe, &st) == 0)
        return FINE;
    error_set(errp, DDP_E_USAGE, ENOENT, "%.120s on node %d is not the folder that rank 0 (node 0) has: checkpoints must "
              "lie in one that all nodes share", dir, d->world.node);
    return WRONG;
}

/* 0, or the worst that any rank has found. */
static int agree_on(ddp_t *d, enum finding own, const ddp_error_t *why, ddp_error_t *errp)
{
    int64_t worst = own;
    ddp_error_t told;
    if (comm_allreduce(d->comm, &worst, 1, DDP_I64, DDP_MAX, errp) < 0)
        return handle_break(d);
    if (checkpoint_agree(d, why, &told, errp) < 0)
        return -1;
    if (worst != FINE && errp)
        *errp = told;
    return worst == FINE ? 0 : worst == UNWRITABLE ? 1 : -1;
}

static int explain_folder(const char *a, int rank_a, const char *b, int rank_b, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_USAGE, EINVAL, "checkpoints go to %.80s on rank %d and to %.80s on rank %d: name the "
                     "same folder", a, rank_a, b, rank_b);
}

static int find_folder(ddp_t *d, const char *dir, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    ddp_error_t why = {0};
    enum finding found = FINE;
    if (handle_same(d, dir, explain_folder, errp) < 0)
        return -1;
    if (d->world.rank == 0 && !*c->token && io_random_hex(c->token, COMMIT_TOKEN_BYTES, &why) < 0)
        found = WRONG;
    if (comm_bcast(d->comm, c->token, sizeof c->token, 0, errp) < 0)
        return handle_break(d);
    if (found == FINE && d->world.rank == 0)
        found = look_first(d, dir, &why);
    int rc = agree_on(d, found, &why, errp);
    if (rc != 0)
        return rc;
    return agree_on(d, d->world.rank == 0 ? FINE : look_too(d, dir, &why), &why, errp);
}

static int take_memory(ddp_t *d, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    const struct share *s = &c->plan.share;
    const struct budget_part part = {"snapshot of a checkpoint", writer_bytes(&c->plan.files, s->piece, s->n)};
    if (budget_check("", &part, 1, d->world.local_size, errp) < 0)
        return -1;
    free(c->sum);
    c->sum = calloc(c->plan.files.n_tensors + 1, sizeof *c->sum);
    if (!c->sum)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for checksums");
    return 0;
}

/* Nobody takes memory before all may. */
static int open_writer(ddp_t *d, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    ddp_error_t why = {0}, told;
    if (c->writer)
        return 0;
    if (checkpoint_plan(d, &why) == 0)
        take_memory(d, &why);
    if (checkpoint_agree(d, &why, &told, errp) < 0)
        return -1;
    if (!told.code) {
        c->writer = writer_create(&c->plan.files, c->plan.share.piece, c->plan.share.n, &why);
        if (checkpoint_agree(d, &why, &told, errp) < 0)
            return -1;
    }
    if (told.code && errp)
        *errp = told;
    return told.code ? -1 : 0;
}

int checkpoint_plan_window(ddp_t *d, ddp_error_t *errp)
{
    ddp_error_t why;
    drop_plan(&d->checkpoint);
    if (open_writer(d, &why) == 0)
        return 0;
    if (d->phase != PHASE_BROKEN) {
        checkpoint_warn(d, "the step that was begun is not saved, and will begin anew: %s", why.text);
        d->window.is_refused = true;
        drop_plan(&d->checkpoint);
        return open_writer(d, errp);
    }
    if (errp)
        *errp = why;
    return -1;
}

int checkpoint_open(ddp_t *d, const char *name, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    char dir[FOLDER_PATH_MAX], probe[FOLDER_PATH_MAX];
    if (checkpoint_tidy(name, dir, errp) < 0)
        return -1;
    if (c->dir && !strcmp(c->dir, dir))
        return 0;
    int rc = find_folder(d, dir, errp);
    if (d->world.rank == 0 && probe_path(d, dir, probe, NULL) == 0)
        rmdir(probe); /* all have looked; one that stays is removed before the first save */
    if (rc == 0)
        rc = open_writer(d, errp);
    char *copy = rc == 0 ? strdup(dir) : NULL;
    if (rc != 0 || !copy)
        return rc != 0 ? rc : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a path");
    if (c->is_clean)
        commit_leave(c->dir, c->token);
    free(c->dir);
    c->dir = copy;
    c->has_last = c->is_clean = false;
    return 0;
}

void checkpoint_clean(ddp_t *d)
{
    struct checkpoint *c = &d->checkpoint;
    ddp_error_t why;
    if (d->world.rank != 0 || c->is_clean)
        return;
    c->is_clean = commit_clean(c->dir, c->token, &why) == 0;
    if (!c->is_clean)
        checkpoint_warn(d, "%s", why.text);
}

/* ---- ddp.h ---- */

EXPORT int ddp_checkpoint_attach(ddp_t *d, const char *name, const char *text, ddp_error_t *errp)
{
    struct checkpoint *c = &d->checkpoint;
    if (handle_expect(d, 1u << PHASE_COMMITTED | 1u << PHASE_IDLE, "ddp_checkpoint_attach", errp) < 0)
        return -1;
    if (c->plan.is_made || !name || !text || strlen(name) > FILES_NAME_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_checkpoint_attach: a name of at most %d bytes and a text "
                         "are needed, before ddp_resume and ddp_checkpoint", d->world.rank, FILES_NAME_MAX);
    struct files_small *all = realloc(c->attached, ((size_t)c->n_attached + 1) * sizeof *all);
    char *copy = strdup(text);
    if (all)
        c->attached = all;
    if (!all || !copy) {
        free(copy);
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %s", name);
    }
    struct files_small *added = &all[c->n_attached++];
    *added = (struct files_small){.text = copy, .n_bytes = strlen(text)};
    strcpy(added->name, name);
    return 0;
}
