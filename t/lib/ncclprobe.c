/* ncclprobe - wires up as libddp does, with NCCL beside the host communicator, and tries every operation:
 *
 *   ncclprobe [--timeout S] [--ops K] [--share] [--log PATH] [--again] [--ids] [--per-root N]
 *             [--die-before-start RANK] [--die-in-op RANK] [--abort-in-op RANK] [--leave-in-op RANK] [--late RANK]
 *
 * Memory is host memory, as the double's (t/lib/nccldouble) device memory is. --timeout: of NCCL's waits. --again:
 * then with a second communicator. --ids: exchange ids only, with any libnccl. --per-root: one root per N ranks.
 * A rank meets its trouble before its third operation. Each rank prints one line, and ends with 0:
 *
 *   rank 2 of 4: ok, NCCL 2.28.9
 *   rank 2 of 4: warned: NCCL 2.28.7 may crash (before that line)
 *   rank 2 of 4: told within 0.1 s: rank 1 (n1) died
 *   rank 2 of 4: ids 12ab34cd (a sum of them)
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/num.h"
#include "runtime/comm/wireup.h"
#include "runtime/nccl/impl.h"
#include "t/lib/ncclprobe.h"

enum { BOOT_S = 30 };

static int usage(void)
{
    fprintf(stderr, "ncclprobe: unknown option, or one without its value; see the head of t/lib/ncclprobe.c\n");
    return 2;
}

static int parse(int argc, char **argv, struct plan *p)
{
    const struct {
        const char *name;
        int *at;
    } ranks[] = {{"--die-before-start", &p->die_start}, {"--die-in-op", &p->die_op}, {"--abort-in-op", &p->abort_op},
                 {"--leave-in-op", &p->leave_op},       {"--late", &p->late},
                 {"--ops", &p->n_ops},                  {"--per-root", &p->per_root}};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool is_known = true;
        if (!strcmp(argv[i], "--again") || !strcmp(argv[i], "--ids") || !strcmp(argv[i], "--share")) {
            *(argv[i][2] == 'a' ? &p->again : argv[i][2] == 'i' ? &p->ids_only : &p->share) = true;
            continue;
        }
        if (!strcmp(argv[i], "--timeout"))
            is_known = num_double(value, 0, 3600, &p->timeout_s) == 0;
        else if (!strcmp(argv[i], "--log"))
            p->log = value;
        else {
            size_t k = 0;
            while (k < sizeof ranks / sizeof *ranks && strcmp(argv[i], ranks[k].name) != 0)
                k++;
            is_known = k < sizeof ranks / sizeof *ranks && num_int(value, 0, 1 << 20, ranks[k].at) == 0;
        }
        if (!is_known)
            return -1;
        i++;
    }
    return 0;
}

/* Everything that needs the boot. */
static int wire_up(struct probe *x, boot_t *b, ddp_error_t *errp)
{
    struct comm_config cfg = {.timeout_s = BOOT_S};
    x->w = world_exchange(b, deadline_in(BOOT_S), errp);
    x->c = x->w ? comm_create(&cfg, x->w, b, errp) : NULL;
    return x->c ? 0 : -1;
}

static void warn(void *ctx, const char *line)
{
    const struct probe *x = ctx;
    printf("rank %d of %d: warned: %s\n", x->w->rank, x->w->size, line);
    fflush(stdout);
}

static nccl_t *create(struct probe *x, ddp_error_t *errp)
{
    const struct plan *p = x->plan;
    struct nccl_config cfg = {.timeout_s = p->timeout_s, .share_devices = p->share, .log = p->log};
    cfg.ranks_per_root = p->per_root;
    cfg.device.sum = probe_sum;
    cfg.warn = warn;
    cfg.warn_ctx = x;
    nccl_t *n = nccl_create(&cfg, x->w, x->c, errp);
    for (size_t i = 0; n && i < (size_t)n->n_ids * NCCL_ID_BYTES; i++)
        x->ids = (x->ids ^ n->ids[i]) * 16777619u;
    return n;
}

static void meet_trouble_before_start(const struct probe *x)
{
    uint64_t until = deadline_in(30);
    if (x->w->rank == x->plan->die_start)
        raise(SIGKILL);
    while (x->w->rank == x->plan->late && !watch_is_broken(x->c->watch) && deadline_left_ns(until) > 0)
        poll(NULL, 0, 10); /* the others give it up */
}

static int run(struct probe *x, ddp_error_t *errp)
{
    x->since = clock_ns();
    for (int g = 0; g < (x->plan->again ? 2 : 1); g++) {
        nccl_t *n = x->n[g] = create(x, errp);
        if (!n)
            return -1;
        if (x->plan->ids_only)
            continue;
        meet_trouble_before_start(x);
        if (nccl_start(n, errp) < 0 || probe_operations(x, n, errp) < 0 || nccl_close(n, errp) < 0)
            return -1;
    }
    return comm_barrier(x->c, errp); /* roots listen until all have what they came for */
}

static void tell(const struct probe *x, int rc, const ddp_error_t *e, int rank, int size)
{
    char line[512];
    int n = snprintf(line, sizeof line, "rank %d of %d: ", rank, size);
    double took = x->since ? (double)(clock_ns() - x->since) / 1e9 : 0;
    if (rc == 0 && x->plan->ids_only)
        n += snprintf(line + n, sizeof line - (size_t)n, "ids %08x\n", x->ids);
    else if (rc == 0)
        n += snprintf(line + n, sizeof line - (size_t)n, "ok, NCCL %s\n", nccl_version(x->n[0]));
    else
        n += snprintf(line + n, sizeof line - (size_t)n, "told within %.1f s: %s\n", took, e->text);
    fwrite(line, 1, (size_t)n, stdout);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct plan plan = {.timeout_s = 30, .n_ops = 4, .die_start = -1, .die_op = -1, .abort_op = -1, .leave_op = -1};
    struct probe x = {.plan = &plan};
    ddp_error_t e = {0};
    plan.late = -1;
    if (parse(argc, argv, &plan) < 0)
        return usage();
    boot_t *b = boot_open(deadline_in(BOOT_S), &e);
    if (!b) {
        fprintf(stderr, "ncclprobe: %s\n", e.text);
        return 1;
    }
    int rank = boot_rank(b), size = boot_size(b), rc = wire_up(&x, b, &e);
    if (boot_leave(b, rc == 0 ? &e : NULL) < 0)
        rc = -1;
    if (rc == 0)
        rc = run(&x, &e);
    tell(&x, rc, &e, rank, size);
    nccl_destroy(x.n[0]);
    nccl_destroy(x.n[1]);
    comm_destroy(x.c);
    world_destroy(x.w);
    return 0;
}
