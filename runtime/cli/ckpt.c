/* ckpt.c - `ddp ckpt`: what checkpoints there are, whether they hold, what is in them; and one file of their model. */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/base/num.h"
#include "runtime/base/plain.h"
#include "runtime/ckpt/export.h"
#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/reader.h"
#include "runtime/cli/cli.h"

static const char help_text[] =
    "usage: ddp ckpt ls DIR           lists the checkpoints in DIR, oldest first\n"
    "       ddp ckpt verify DIR       reads every byte of each and compares it with its checksums\n"
    "       ddp ckpt show DIR         prints what the manifest of the newest says\n"
    "       ddp ckpt export DIR FILE  copies the newest one's model into one safetensors file; into a folder that is\n"
    "                                 there, or FOLDER/, with its config.json, for transformers or train --init\n"
    "\n"
    "DIR is a folder of checkpoints, as train's --ckpt, or one of the checkpoints in it (DIR/step-00000100).\n"
    "ls looks at files' presence, sizes and heads; verify and export also at every tensor. FILE is replaced at once,\n"
    "when all of it is on disk.\n"
    "\n"
    "Exit code: 0; 1: a checkpoint is broken, or there is none, or FILE cannot be written; 2: wrong usage.\n";

/* The checkpoints that DIR names. */
struct found {
    const char *dir;
    bool is_one;    /* DIR is a checkpoint itself */
    uint64_t *step; /* [n], rising; of one: not used */
    size_t n;
};

static int say(const ddp_error_t *e)
{
    fflush(stdout);
    fprintf(stderr, "ddp ckpt: %s\n", e->text);
    return 1;
}

static int find(const char *dir, struct found *ret, ddp_error_t *errp)
{
    char path[FOLDER_PATH_MAX];
    struct stat st;
    *ret = (struct found){.dir = dir, .n = 1};
    if (snprintf(path, sizeof path, "%s/" MANIFEST_NAME, dir) >= (int)sizeof path)
        return error_set(errp, DDP_E_USAGE, ENAMETOOLONG, "the path of DIR is longer than %d bytes", FOLDER_PATH_MAX);
    if (stat(path, &st) == 0)
        return ret->is_one = true, 0;
    if (stat(dir, &st) < 0)
        return error_errno(errp, "%.160s", dir);
    if (reader_list(dir, &ret->step, &ret->n, errp) < 0)
        return -1;
    if (ret->n == 0)
        return error_set(errp, DDP_E_DATA, ENOENT, "%.160s has no checkpoint: no folder step-* with a " MANIFEST_NAME,
                         dir);
    return 0;
}

static void path_of(const struct found *f, size_t i, char path[FOLDER_PATH_MAX + 40])
{
    char name[32];
    if (f->is_one) {
        snprintf(path, FOLDER_PATH_MAX, "%s", f->dir);
        return;
    }
    folder_name(f->step[i], name);
    snprintf(path, FOLDER_PATH_MAX + 40, "%s/%s", f->dir, name);
}

static const char *size_text(uint64_t n, char text[32])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)n;
    int i = 0;
    for (; v >= 1024; i++)
        v /= 1024;
    snprintf(text, 32, i ? "%.1f %s" : "%.0f %s", v, unit[i]);
    return text;
}

static uint64_t all_bytes(const struct manifest *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->n_files; i++)
        n += m->file[i].n_bytes;
    return n;
}

/* What a manifest says, on a terminal: one line, nothing that moves the cursor. */
static const char *plain(const char *text, char ret[MANIFEST_TEXT_MAX + 1])
{
    snprintf(ret, MANIFEST_TEXT_MAX + 1, "%s", text);
    plain_line(ret);
    size_t n = strlen(ret);
    while (n > 0 && ret[n - 1] == ' ')
        n--;
    ret[n] = 0;
    return ret;
}

/* ---- ls, verify ---- */

static int list(const struct found *f)
{
    int rc = 0;
    printf("%12s  %-20s  %5s  %10s  %7s  %s\n", "step", "saved at", "ranks", "size", "tensors", "why");
    for (size_t i = 0; i < f->n; i++) {
        char path[FOLDER_PATH_MAX + 40], size[32], text[2][MANIFEST_TEXT_MAX + 1];
        struct manifest m;
        ddp_error_t e;
        path_of(f, i, path);
        if (reader_open(path, &m, &e) < 0) {
            rc = say(&e);
            continue;
        }
        printf("%12" PRIu64 "  %-20s  %5d  %10s  %7zu  %s\n", m.state.step, plain(m.state.saved_at, text[0]),
               m.state.world_size, size_text(all_bytes(&m), size), m.n_tensors, plain(m.state.reason, text[1]));
        manifest_clear(&m);
    }
    return rc;
}

static int verify(const struct found *f)
{
    int rc = 0;
    for (size_t i = 0; i < f->n; i++) {
        char path[FOLDER_PATH_MAX + 40], size[32];
        struct manifest m;
        ddp_error_t e;
        path_of(f, i, path);
        if (reader_open(path, &m, &e) < 0) {
            rc = say(&e);
            continue;
        }
        int verified = reader_verify(path, &m, &e);
        plain_line(path);
        if (verified < 0)
            rc = say(&e);
        else
            printf("%s: %zu files and %zu tensors are as they were written (%s)\n", path, m.n_files, m.n_tensors,
                   size_text(all_bytes(&m), size));
        manifest_clear(&m);
    }
    return rc;
}

/* ---- show ---- */

static void row(const char *name, const char *text)
{
    char one[MANIFEST_TEXT_MAX + 1];
    if (text[0])
        printf("  %-12s  %s\n", name, plain(text, one));
}

static void show_state(const struct manifest_state *s)
{
    printf("  %-12s  %" PRIu64 "\n", "step", s->step);
    row("saved at", s->saved_at);
    row("why", s->reason);
    row("software", s->software);
    printf("  %-12s  %d on %d node%s", "ranks", s->world_size, s->n_nodes, PLURAL(s->n_nodes));
    if (s->n_threads)
        printf(", %d thread%s each", s->n_threads, PLURAL(s->n_threads));
    printf("\n");
    row("sums over", s->summed_over);
    row("CPU", s->cpu);
    row("kernels", s->kernels);
    row("products", s->products);
    row("optimizer", s->optimizer);
    row("samples of", s->noted_data);
    char order[MANIFEST_TEXT_MAX + 1];
    if (s->data.n_samples)
        printf("  %-12s  epoch %" PRIu64 ", %" PRIu64 " of %" PRIu64 " samples taken; order %s, seed %" PRIu64
               "; batch %" PRIu64 " x %d, shards %d\n", "data", s->data.epoch, s->data.cursor, s->data.n_samples,
               plain(s->data.order, order), s->data.seed, s->data.batch, s->data.accum, s->data.shards);
    if (s->n_skipped)
        printf("  %-12s  %d step%s in a row\n", "skipped", s->n_skipped, PLURAL(s->n_skipped));
    if (s->loss_scale.scale > 0)
        printf("  %-12s  %g, for %d step%s\n", "loss scale", s->loss_scale.scale, s->loss_scale.n_good,
               PLURAL(s->loss_scale.n_good));
    if (s->cut.micro)
        printf("  %-12s  %d micro-step%s of the next step done, on %d rank%s\n", "cut", s->cut.micro,
               PLURAL(s->cut.micro), s->cut.n_ranks, PLURAL(s->cut.n_ranks));
    printf("  %-12s  %.1f s in %d run%s, %d of which failed\n", "trained", s->trained_s, s->n_runs,
           PLURAL(s->n_runs), s->n_failures);
}

static void show_lists(const struct manifest *m)
{
    printf("\n%-50s  %14s  %16s\n", "file", "bytes", "head's checksum");
    for (size_t i = 0; i < m->n_files; i++)
        printf("%-50s  %14" PRIu64 "  %016" PRIx64 "\n", m->file[i].name, m->file[i].n_bytes, m->file[i].checksum);
    printf("\n%-50s  %4s  %-20s  %4s  %16s\n", "tensor", "type", "shape", "file", "checksum");
    for (size_t i = 0; i < m->n_tensors; i++) {
        const struct st_tensor *t = &m->tensor[i].at.t;
        char shape[ST_DIMS_MAX * 22 + 1] = "", name[MANIFEST_TEXT_MAX + 1];
        for (int k = 0, n = 0; k < t->ndim; k++)
            n += snprintf(shape + n, sizeof shape - (size_t)n, k ? " x %" PRIu64 : "%" PRIu64, t->shape[k]);
        printf("%-50s  %4s  %-20s  %4d  %016" PRIx64 "\n", plain(t->name, name), st_dtype_name(t->dtype), shape,
               m->tensor[i].at.file + 1, m->tensor[i].checksum);
    }
}

static int show(const struct found *f)
{
    char path[FOLDER_PATH_MAX + 40], size[32];
    struct manifest m;
    ddp_error_t e;
    path_of(f, f->n - 1, path);
    if (reader_open(path, &m, &e) < 0)
        return say(&e);
    plain_line(path);
    printf("%s: %s in %zu files, %zu tensors\n", path, size_text(all_bytes(&m), size), m.n_files, m.n_tensors);
    show_state(&m.state);
    show_lists(&m);
    manifest_clear(&m);
    return 0;
}

static int bad_usage(const char *why)
{
    fprintf(stderr, "ddp ckpt: %s: see \"ddp ckpt --help\"\n", why);
    return CLI_USAGE;
}

/* ---- export ---- */

static struct export_file config, model;
static char made[FOLDER_PATH_MAX]; /* the folder that was made for them; "": none */

/* Removes what is not there as a whole. What has its name by now has no temporary, and its folder is not empty. */
static void undo(void)
{
    unlink(config.temporary);
    unlink(model.temporary);
    rmdir(made);
}

static void leave(int sig)
{
    undo();
    _exit(128 + sig);
}

/* Signals that end the command remove what it was writing. Called when the names are complete. */
static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGXFSZ};
    for (int i = 0; i < 4; i++)
        if (signal(signals[i], leave) == SIG_IGN)
            signal(signals[i], SIG_IGN);
}

/* What is there already is to be a file: another thing would be one afterwards, /dev/null among them. */
static int check_file(const char *file, ddp_error_t *errp)
{
    struct stat st;
    if (stat(file, &st) == 0 && !S_ISREG(st.st_mode))
        return error_set(errp, DDP_E_USAGE, EINVAL, "%.160s is no file: name one", file);
    return 0;
}

static int name_file(struct export_file *ret, const char *file, ddp_error_t *errp)
{
    struct export_file f;
    char token[17];
    if (check_file(file, errp) < 0 || io_random_hex(token, 8, errp) < 0)
        return -1;
    if (snprintf(f.file, sizeof f.file, "%s", file) >= (int)sizeof f.file ||
        snprintf(f.temporary, sizeof f.temporary, "%s.%s", file, token) >= (int)sizeof f.temporary)
        return error_set(errp, DDP_E_USAGE, ENAMETOOLONG, "the path of FILE is longer than %d bytes", FOLDER_PATH_MAX);
    *ret = f;
    return 0;
}

/* A folder that is there, or a name that ends as one's does, which becomes one. 1, 0: a file, or -1. */
static int open_folder(const char *target, ddp_error_t *errp)
{
    struct stat st;
    size_t n = strlen(target);
    if (stat(target, &st) == 0 && S_ISDIR(st.st_mode))
        return 1;
    if (target[n - 1] != '/')
        return 0;
    if (mkdir(target, 0777) < 0)
        return error_errno(errp, "%.160s", target);
    snprintf(made, sizeof made, "%s", target);
    return 1;
}

static bool has_file(const struct manifest *m, const char *name)
{
    size_t i = 0;
    while (i < m->n_files && strcmp(m->file[i].name, name) != 0)
        i++;
    return i < m->n_files;
}

/* What is written: the model, and in a folder its config.json, if it has one. */
static int name_files(const struct manifest *m, const char *target, ddp_error_t *errp)
{
    char dir[FOLDER_PATH_MAX], path[FOLDER_PATH_MAX];
    size_t n = strlen(target);
    int is_folder = open_folder(target, errp);
    if (is_folder <= 0)
        return is_folder < 0 ? -1 : name_file(&model, target, errp);
    while (n > 0 && target[n - 1] == '/')
        n--;
    snprintf(dir, sizeof dir, "%.*s", (int)n, target);
    if (has_file(m, "config.json") &&
        (folder_path(path, dir, "config.json", errp) < 0 || name_file(&config, path, errp) < 0))
        return -1;
    return folder_path(path, dir, "model.safetensors", errp) < 0 ? -1 : name_file(&model, path, errp);
}

/* Both are on disk before one is renamed. The model comes last: until then a new folder has none. */
static int write_files(const char *path, const struct manifest *m, ddp_error_t *errp)
{
    bool has_config = config.file[0];
    if ((has_config && export_small(path, m, "config.json", &config, errp) < 0) ||
        export_group(path, m, "model", &model, errp) < 0 || (has_config && export_move(&config, errp) < 0))
        return -1;
    return export_move(&model, errp);
}

static int export(const struct found *f, const char *target)
{
    char path[FOLDER_PATH_MAX + 40], size[32];
    struct manifest m;
    struct stat st;
    ddp_error_t e;
    path_of(f, f->n - 1, path);
    if (strlen(target) >= FOLDER_PATH_MAX)
        return bad_usage("the path of FILE is too long");
    if (reader_open(path, &m, &e) < 0)
        return say(&e);
    int rc = name_files(&m, target, &e);
    catch_signals();
    if (rc == 0)
        rc = write_files(path, &m, &e);
    manifest_clear(&m);
    if (rc < 0) {
        undo();
        return say(&e);
    }
    size_text(stat(model.file, &st) == 0 ? (uint64_t)st.st_size : 0, size);
    plain_line(model.file);
    plain_line(path);
    printf("%s: the model of %s (%s)\n", model.file, path, size);
    return 0;
}

int cli_ckpt(int argc, char **argv)
{
    static const struct {
        const char *name;
        int n_args;
        int (*main)(const struct found *f);
    } verbs[] = {{"ls", 1, list}, {"verify", 1, verify}, {"show", 1, show}, {"export", 2, NULL}};
    size_t i = 0;
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        return fputs(help_text, stdout), 0;
    while (i < 4 && strcmp(name, verbs[i].name))
        i++;
    if (i == 4)
        return bad_usage(*name ? "it knows ls, verify, show and export" : "ls, verify, show or export?");
    if (argc - 2 != verbs[i].n_args || !argv[2][0] || !argv[argc - 1][0])
        return bad_usage(verbs[i].n_args == 1 ? "it takes one DIR" : "export takes DIR and FILE, or FOLDER/");
    struct found f;
    ddp_error_t e;
    if (find(argv[2], &f, &e) < 0)
        return say(&e);
    int rc = verbs[i].main ? verbs[i].main(&f) : export(&f, argv[3]);
    free(f.step);
    return rc;
}
