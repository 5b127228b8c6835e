/* judge.c - what follows from what the ranks are, have and measured: a verdict for each item. */
#include "runtime/cli/check/judge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/num.h"

static void judge_ranks(struct judge *j)
{
    const struct check *c = j->c;
    int most = 0, least = c->size, *n = calloc((size_t)c->n_nodes, sizeof *n);
    for (int r = 0; n && r < c->size; r++)
        n[c->facts[r].node]++;
    for (int k = 0; n && k < c->n_nodes; k++) {
        most = n[k] > most ? n[k] : most;
        least = n[k] < least ? n[k] : least;
    }
    free(n);
    if (most > least)
        verdict_add(j->out, VERDICT_WARN, "ranks", "give each node as many: --ntasks-per-node",
                    "%d ranks on %d nodes, %d to %d on a node: only %d of each send and receive between nodes", c->size,
                    c->n_nodes, least, most, least);
    else
        verdict_add(j->out, VERDICT_OK, "ranks", NULL, "%d rank%s on %d node%s %s", c->size, PLURAL(c->size),
                    c->n_nodes, PLURAL(c->n_nodes), c->size == 1 ? "alone" : "have met");
}

/* ---- versions ---- */

static void plugin_of(const struct check_facts *f, char *ret, size_t size)
{
    snprintf(ret, size, "%s", f->plugin[0] ? f->plugin : "none");
}
static void program_of(const struct check_facts *f, char *ret, size_t size)
{
    snprintf(ret, size, "%016" PRIx64, f->program_hash);
}
static void library_of(const struct check_facts *f, char *ret, size_t size)
{
    if (f->library[0])
        snprintf(ret, size, "%s, %016" PRIx64, f->library, f->library_hash);
    else
        snprintf(ret, size, "none");
}
static void driver_of(const struct check_facts *f, char *ret, size_t size)
{
    snprintf(ret, size, "%s", f->driver[0] ? f->driver : "none");
}
static void kernel_of(const struct check_facts *f, char *ret, size_t size)
{
    snprintf(ret, size, "%s", f->kernel);
}

static const struct {
    const char *what;
    void (*get)(const struct check_facts *f, char *ret, size_t size);
    enum verdict_level level;
    const char *cure;
} versions[] = {
    {"the plugin's version, DDP_VERSION,", plugin_of, VERDICT_FAIL,
     "install the same slurm-ddp there; where it is none, ddp.so is missing or of another Slurm"},
    {"the program ddp, by its bytes,", program_of, VERDICT_FAIL, "install the same slurm-ddp there"},
    {"libddp.so.0, which programs load,", library_of, VERDICT_FAIL, "install the same libddp there and run ldconfig"},
    {"NVIDIA's driver", driver_of, VERDICT_WARN, "install the same there"},
    {"the kernel", kernel_of, VERDICT_WARN, "boot the same there"},
};

#define VERSION_MAX 160

/* The text that most ranks have: Boyer and Moore's majority vote, or, without a majority, some rank's. */
static void most_common(const struct check *c, void (*get)(const struct check_facts *, char *, size_t),
                        char ret[VERSION_MAX])
{
    char text[VERSION_MAX];
    int votes = 0;
    for (int r = 0; r < c->size; r++) {
        get(&c->facts[r], text, sizeof text);
        if (votes == 0)
            snprintf(ret, VERSION_MAX, "%s", text);
        votes += strcmp(text, ret) ? -1 : 1;
    }
}

/* True if it is the same on all. */
static bool is_same(struct judge *j, size_t i)
{
    char usual[VERSION_MAX], text[VERSION_MAX], other[VERSION_MAX] = "";
    int rank = -1;
    judge_clear(j);
    most_common(j->c, versions[i].get, usual);
    for (int r = 0; r < j->c->size; r++) {
        versions[i].get(&j->c->facts[r], text, sizeof text);
        if (!strcmp(text, usual))
            continue;
        j->node[j->c->facts[r].node] = true;
        if (rank < 0) {
            memcpy(other, text, sizeof other);
            rank = r;
        }
    }
    if (rank < 0)
        return true;
    judge_name(j);
    struct verdict *v = verdict_add(j->out, versions[i].level, "versions", versions[i].cure,
                                    "%s differs on %s: rank %d has %s, most have %s", versions[i].what, j->names, rank,
                                    other, usual);
    judge_blame(j, v);
    return false;
}

static void judge_versions(struct judge *j)
{
    const struct check_facts *f = &j->c->facts[0];
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (!is_same(j, i))
            return;
    verdict_add(j->out, VERDICT_OK, "versions", NULL, "ddp " DDP_VERSION "%s%s; libddp.so.0: %s; Linux %s%s%s",
                f->plugin[0] ? ", plugin " : f->is_step ? ", without the plugin" : "", f->plugin,
                f->library[0] ? f->library : "none installed", f->kernel, f->driver[0] ? "; NVIDIA " : "", f->driver);
}

void check_judge(const struct check *c, struct verdicts *ret)
{
    struct judge j = {.c = c, .out = ret, .node = calloc((size_t)c->n_nodes + 1, sizeof *j.node)};
    if (!j.node) {
        verdict_add(ret, VERDICT_FAIL, "memory", NULL, "rank 0 has none left for %d ranks", c->size);
    } else {
        judge_ranks(&j);
        judge_versions(&j);
        judge_binding(&j);
        judge_memory(&j);
        judge_clocks(&j);
        judge_speed(&j);
        judge_links(&j);
        judge_gpus(&j);
        judge_folder(&j);
    }
    free(j.node);
}
