/* init.c - ddp_init, ddp_group and their end: config -> boot -> world -> communicator. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/base/clock.h"
#include "runtime/handle.h"
#include "runtime/sized.h"

#define STACK_MIN_KIB 256

/* What ddp_init does not know of itself. */
struct self {
    boot_t *boot;
    const char *node, *name;
    const char *timeout_name; /* of comm_config; NULL: the setting's */
};

/* Everything that needs the boot; it is closed in any case: nobody may stay connected to PMIx (boot.h). */
static int wire_up(ddp_t *d, const struct self *self, ddp_error_t *errp)
{
    double timeout_s = d->config.timeout_s;
    uint64_t deadline = deadline_in(timeout_s);
    struct comm_config cfg = {
        .timeout_s = timeout_s, .interface = config_text(d->config.interface), .progress = d->config.progress,
        .timeout_name = self->timeout_name ? self->timeout_name : "DDP_TIMEOUT"};
    boot_t *b = self->boot ? self->boot : boot_open(deadline, errp);
    if (!b)
        return -1;
    d->save.recall.handover = handover_take();
    d->team.map = world_exchange_as(b, self->node, self->name, deadline, errp);
    if (d->team.map)
        d->team.comm = comm_create(&cfg, d->team.map, b, errp);
    if (boot_leave(b, d->team.comm ? errp : NULL) < 0) /* still connected: see boot.h */
        return -1;
    return d->team.comm ? 0 : -1;
}

/* An image may bring a libddp of another version than the plugin that set the task up. Where all goes well it does not
 * matter. */
static void name_version(ddp_error_t *errp)
{
    const char *plugin = getenv("DDP_VERSION");
    if (plugin && *plugin && strcmp(plugin, DDP_VERSION) != 0)
        error_prefix(errp, "libddp " DDP_VERSION " under the plugin of slurm-ddp %.20s", plugin);
}

/* What lies on it are paths, most often: too small a one would be a signal that names nothing. */
static int check_stack(ddp_error_t *errp)
{
    struct rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) < 0 || stack.rlim_cur >= STACK_MIN_KIB * 1024)
        return 0;
    return error_set(errp, DDP_E_SYSTEM, ENOMEM, "the stack has %llu KiB (ulimit -s), and libddp needs %d",
                     (unsigned long long)stack.rlim_cur / 1024, STACK_MIN_KIB);
}

static ddp_t *handle_create(ddp_error_t *errp)
{
    ddp_t *d = calloc(1, sizeof *d);
    if (!d) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a handle");
        return NULL;
    }
    d->save = (struct save){.team = &d->team, .state = &d->state, .config = &d->config,
                            .checkpoint.status.last_step = UINT64_MAX};
    return d;
}

EXPORT ddp_t *ddp_init(int *argc, char ***argv, ddp_error_t *errp)
{
    ddp_t *d = handle_create(errp);
    if (!d)
        return NULL;
    if (check_stack(errp) < 0 || config_load(&d->config, argc, argv, errp) < 0 ||
        wire_up(d, &(struct self){0}, errp) < 0) {
        name_version(errp);
        ddp_finalize(d);
        return NULL;
    }
    d->team = team_of(d->team.map, d->team.comm, d->config.timeout_s);
    return d;
}

static int check_group(const struct ddp_group *g, ddp_error_t *errp)
{
    if (g->size < 1 || g->rank < 0 || g->rank >= g->size)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_group: rank %d of %d ranks", g->rank, g->size);
    if (!g->put || !g->get)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_group: it needs put and get");
    if (!(g->timeout_s >= 0))
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_group: timeout_s %g: give seconds, or 0 for DDP_TIMEOUT",
                         g->timeout_s);
    return 0;
}

static int open_group(ddp_t *d, const struct ddp_group *g, ddp_error_t *errp)
{
    struct boot_given given = {.rank = g->rank, .size = g->size, .ctx = g->ctx, .put = g->put, .get = g->get};
    if (config_load(&d->config, NULL, NULL, errp) < 0)
        return -1;
    if (g->timeout_s > 0)
        d->config.timeout_s = g->timeout_s;
    struct self self = {boot_given(&given, errp), g->node, g->name, g->timeout_s > 0 ? "the group's timeout" : NULL};
    return self.boot ? wire_up(d, &self, errp) : -1;
}

EXPORT ddp_t *ddp_group_sized(const struct ddp_group *group, size_t size, ddp_error_t *errp)
{
    struct ddp_group g;
    if (sized_take(&g, sizeof g, group, size, "ddp_group", errp) < 0 || check_group(&g, errp) < 0)
        return NULL;
    ddp_t *d = handle_create(errp);
    if (!d)
        return NULL;
    if (open_group(d, &g, errp) < 0) {
        ddp_finalize(d);
        return NULL;
    }
    d->team = team_of(d->team.map, d->team.comm, d->config.timeout_s);
    return d;
}

EXPORT void ddp_finalize(ddp_t *d)
{
    if (!d || comm_is_parents(d->team.comm))
        return;
    int saved = errno;
    parts_off(&d->parts); /* the program's stream may have gone */
    enum ddp_part part = parts_go(&d->parts, DDP_PART_CHECKPOINT);
    unsigned between = 1u << PHASE_COMMITTED | 1u << PHASE_IDLE | 1u << PHASE_STATE;
    bool is_between = !d->team.is_broken && between & 1u << d->phase && !d->state.micro.is_unfinished;
    if (is_between && d->phase != PHASE_COMMITTED) /* else gradients may be on their way */
        checkpoint_wait(&d->save, NULL);
    checkpoint_wait_copied(&d->save); /* out of memory that the ranks of a node share */
    parts_go(&d->parts, part);
    goodput_close(d);
    stop_release(&d->save.stop);
    arena_leave(&d->state.arena, is_between); /* before the communicator, which NCCL asks */
    comm_destroy(d->team.comm); /* first: until then its thread may be at works, which use what is freed below */
    handle_free_works(d);
    scheduler_close(&d->save);
    cut_close(&d->save);
    if (!checkpoint_close(&d->save)) { /* its threads read what is freed below */
        errno = saved;
        return;
    }
    foreign_close(&d->save);
    data_close(&d->state.data);
    shards_close(&d->state.shards);
    parts_gpu_close(&d->parts_gpu);
    arena_close(&d->state.arena);
    optimizer_close(&d->state.optimizer);
    zero_gpu_close(&d->spread);
    reducer_close(&d->state.reducer);
    verify_close(&d->verify);
    pace_close(&d->pace);
    trace_close(&d->trace);
    device_close(d->device);
    layout_clear(&d->state.layout);
    world_destroy(d->team.map);
    free(d);
    errno = saved;
}

EXPORT void ddp_abort(ddp_t *d, int code, const char *why)
{
    (void)code; /* for the caller's exit; peers are told why */
    if (!d || comm_is_parents(d->team.comm))
        return;
    why = why ? why : "no reason given";
    comm_abort(d->team.comm, why);
    d->team.is_broken = true;
    events_failed(d, why);
}

EXPORT int ddp_check(const ddp_t *d, ddp_error_t *errp)
{
    ddp_error_t why;
    if (handle_expect_rank(d, "ddp_check", errp) < 0)
        return -1;
    if (!comm_why(d->team.comm, &why))
        return 0;
    if (errp)
        *errp = why;
    return -1;
}

EXPORT const struct ddp_world *ddp_world(const ddp_t *d)
{
    return &d->team.me;
}
