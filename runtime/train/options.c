#include "runtime/train/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/knob.h"
#include "runtime/base/num.h"

/* Sizes: Radford et al. 2019, table 2. Learning rates of the large ones: Brown et al., arXiv:2005.14165, table 2.1. */
static const struct preset {
    const char *name;
    struct model_config model;
    size_t batch;
    double lr;
    uint64_t warmup;
} presets[] = {
    {"tiny", {4, 128, 4, 64, 256, false}, 8, 3e-3, 20},
    {"small", {6, 256, 8, 128, 256, false}, 4, 1e-3, 20},
    {"gpt2-124m", {12, 768, 12, 1024, 50257, false}, 1, 6e-4, 700},
    {"gpt2-355m", {24, 1024, 16, 1024, 50257, false}, 1, 3e-4, 700},
    {"gpt2-774m", {36, 1280, 20, 1024, 50257, false}, 1, 2.5e-4, 700},
    {"gpt2-1558m", {48, 1600, 25, 1024, 50257, false}, 1, 2e-4, 700},
};
#define N_PRESETS (sizeof presets / sizeof *presets)
#define DEVICE_NAMES "auto|cpu|cuda"
#define PRESET_NAMES "tiny|small|gpt2-124m|gpt2-355m|gpt2-774m|gpt2-1558m"

enum {
    MODEL, LAYERS, WIDTH, HEADS, CONTEXT, VOCAB, STEPS, BATCH, ACCUM, SHARDS, DEVICE, DTYPE, SEED,
    VAL_EVERY, VAL_WINDOWS, OPTIMIZER, LR, MIN_LR, SCALE_LR, WARMUP, CLIP, WEIGHT_DECAY, BETA1, BETA2, EPS, RECOMPUTE,
    CKPT, CKPT_EVERY, KEEP,
    RESUME, INIT, LOG_EVERY, LOG_JSON, PRINT_HASH,
    N_KNOBS
};

#define BIG 1e15 /* exact in a double */

/* Where the default is NULL it comes from the preset or from another option; the help line says so. */
static const struct knob knobs[N_KNOBS] = {
    [MODEL] = {"--model", NULL, KNOB_ENUM, "tiny", 0, 0, PRESET_NAMES, "preset of sizes and rates, see below"},
    [LAYERS] = {"--layers", NULL, KNOB_INT, NULL, 1, 10000, NULL, "blocks (preset)"},
    [WIDTH] = {"--width", NULL, KNOB_INT, NULL, 1, 1 << 20, NULL, "width of the residual stream (preset)"},
    [HEADS] = {"--heads", NULL, KNOB_INT, NULL, 1, 1 << 20, NULL, "attention heads; they divide the width (preset)"},
    [CONTEXT] = {"--context", NULL, KNOB_INT, NULL, 1, 1 << 20, NULL, "tokens a sample has (preset)"},
    [VOCAB] = {"--vocab", NULL, KNOB_INT, NULL, 2, 65536, NULL, "vocabulary; bytes need 256 (preset)"},
    [STEPS] = {"--steps", NULL, KNOB_INT, "300", 0, BIG, NULL, "optimizer steps"},
    [BATCH] = {"--batch", NULL, KNOB_INT, NULL, 1, 1 << 20, NULL,
               "samples per rank (or shard) and micro-step (preset)"},
    [ACCUM] = {"--accum", NULL, KNOB_INT, "1", 1, 1 << 20, NULL, "micro-steps per step (gradient accumulation)"},
    [SHARDS] = {"--shards", NULL, KNOB_INT, "0", 0, 1 << 20, NULL,
                "logical shards of --batch samples a step; 0: none, see below"},
    [DEVICE] = {"--device", NULL, KNOB_ENUM, NULL, 0, 0, DEVICE_NAMES,
                "what to compute on; auto: a GPU where there is one that can be used (DDP_DEVICE)"},
    [DTYPE] = {"--dtype", NULL, KNOB_ENUM, NULL, 0, 0, "f32|bf16|f16",
               "of matrices and products; bf16 on a GPU with heads of 64, else f32"},
    [SEED] = {"--seed", NULL, KNOB_INT, "42", 0, BIG, NULL, "of the initial weights and of the order of samples"},
    [VAL_EVERY] = {"--val-every", NULL, KNOB_INT, "0", 0, BIG, NULL, "steps between validations; 0: only at the end"},
    [VAL_WINDOWS] = {"--val-windows", NULL, KNOB_INT, "0", 0, BIG, NULL, "validate on at most so many; 0: on all"},
    [OPTIMIZER] = {"--optimizer", NULL, KNOB_ENUM, "adamw", 0, 0, "adamw|sgd", "update rule"},
    [LR] = {"--lr", NULL, KNOB_DOUBLE, NULL, 0, 1000, NULL, "learning rate at its peak (preset)"},
    [MIN_LR] = {"--min-lr", NULL, KNOB_DOUBLE, NULL, 0, 1000, NULL, "where the cosine ends (a tenth of --lr)"},
    [SCALE_LR] = {"--scale-lr", NULL, KNOB_BOOL, "off", 0, 0, NULL,
                  "multiply both rates by the number of ranks (or shards)"},
    [WARMUP] = {"--warmup", NULL, KNOB_STRING, NULL, 0, 0, NULL,
                "linear warm-up, in steps, or in epochs: 0.5e (preset, at most --steps)"},
    [CLIP] = {"--clip", NULL, KNOB_DOUBLE, "1", 0, BIG, NULL, "greatest L2 norm of the gradient; 0: any"},
    [WEIGHT_DECAY] = {"--weight-decay", NULL, KNOB_DOUBLE, "0.1", 0, 1000, NULL, "on matrices only"},
    [BETA1] = {"--beta1", NULL, KNOB_DOUBLE, "0.9", 0, 0.9999999, NULL, "AdamW's decay of the mean"},
    [BETA2] = {"--beta2", NULL, KNOB_DOUBLE, "0.95", 0, 0.9999999, NULL, "AdamW's decay of the mean square"},
    [EPS] = {"--eps", NULL, KNOB_DOUBLE, "1e-8", 0, 1, NULL, "AdamW's guard against division by 0"},
    [RECOMPUTE] = {"--recompute", NULL, KNOB_BOOL, "off", 0, 0, NULL,
                   "compute each block again for its backward pass: the same bits, less memory, more time"},
    [CKPT] = {"--ckpt", NULL, KNOB_STRING, NULL, 0, 0, NULL,
              "folder for checkpoints, which all nodes share, see below"},
    [CKPT_EVERY] = {"--ckpt-every", NULL, KNOB_INT, NULL, 0, BIG, NULL,
                    "steps between checkpoints; 0: only on a stop and at the end (by their cost)"},
    [KEEP] = {"--keep", NULL, KNOB_INT, NULL, 1, 1 << 20, NULL, "newest checkpoints to keep (2)"},
    [RESUME] = {"--resume", NULL, KNOB_STRING, "auto", 0, 0, NULL,
                "auto: go on from the newest checkpoint in --ckpt; none: do not; or a folder to go on from as long as "
                "--ckpt has none"},
    [INIT] = {"--init", NULL, KNOB_STRING, NULL, 0, 0, NULL,
              "folder of a GPT-2's weights (safetensors and config.json) to begin with"},
    [LOG_EVERY] = {"--log-every", NULL, KNOB_INT, "10", 0, BIG, NULL, "steps between live lines; 0: first and last"},
    [LOG_JSON] = {"--log-json", NULL, KNOB_STRING, NULL, 0, 0, NULL, "file for one JSON object per step"},
    [PRINT_HASH] = {"--print-hash", NULL, KNOB_BOOL, "off", 0, 0, NULL,
                    "at the end, a hash of all parameters, compared between the ranks"},
};

static void help_knob(FILE *f, const struct knob *k)
{
    static const char *const value[] = {
        [KNOB_BOOL] = "", [KNOB_INT] = " N", [KNOB_DOUBLE] = " X", [KNOB_ENUM] = " NAME", [KNOB_STRING] = " TEXT",
    };
    char usage[64];
    snprintf(usage, sizeof usage, "%s%s", k->name, value[k->type]);
    fprintf(f, "  %-20s %s", usage, k->help);
    if (k->type == KNOB_ENUM)
        fprintf(f, ": %s", k->choices);
    if (k->def && k->type != KNOB_BOOL)
        fprintf(f, " [%s]", k->def);
    fprintf(f, "\n");
}

void options_help(FILE *f)
{
    fprintf(f, "usage: train --data FILE|FOLDER... [OPTION...]\n"
               "Trains a GPT-2 family language model, alone or as one of many ranks:\n"
               "  ./train --data /usr/share/common-licenses\n"
               "  ./ddp run -n 4 ./train --data /usr/share/common-licenses\n"
               "  srun --ddp=on -N 4 ./train --data /shared/corpus --model small --steps 2000\n\n"
               "  --data FILE|FOLDER.. bytes of any file, a folder's regular files sorted by name, or token shards\n"
               "                       (*.bin, llm.c's format); joined in the order given\n"
               "  --val FILE|FOLDER..  the same, for validation [the last 5%% of --data]\n");
    for (size_t i = 0; i < N_KNOBS; i++)
        help_knob(f, &knobs[i]);
    fprintf(f, "\n  preset     layers width heads context vocab batch     lr warm-up\n");
    for (const struct preset *p = presets; p < presets + N_PRESETS; p++)
        fprintf(f, "  %-10s %6zu %5zu %5zu %7zu %5zu %5zu %6g %7llu\n", p->name, p->model.layers, p->model.width,
                p->model.heads, p->model.context, p->model.vocab, p->batch, p->lr, (unsigned long long)p->warmup);
    fprintf(f, "\nAlso --help and --version. --steps 300 and --steps=300 are the same. OMP_NUM_THREADS is the number\n"
               "of threads per rank (1 where unset); results do not depend on it. With --shards=V, a power of two and\n"
               "a multiple of the ranks, they do not depend on the number of ranks either. --ddp-KEY=VALUE, or a\n"
               "variable such as DDP_TIMEOUT, sets libddp (doc/user.md lists every KEY). With --ckpt DIR the same command\n"
               "goes on where it was stopped or killed: the same losses, the same parameters. Exit code: 0 trained to\n"
               "the end, 2 a wrong option, 75 stopped with a checkpoint (run it again), 143 stopped by SIGTERM without\n"
               "--ckpt, 1 anything else.\n");
}

bool options_want(int argc, char **argv, const char *option)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], option))
            return true;
    return false;
}

static bool is_option(const char *arg)
{
    return !strncmp(arg, "--", 2);
}

/* Takes the words after argv[*i], up to the next option, or the one after "=". */
static int take_paths(int argc, char **argv, int *i, const char *after_equals, struct path_list *list,
                      ddp_error_t *errp)
{
    const char *option = argv[*i];
    size_t before = list->n;
    if (after_equals)
        list->path[list->n++] = after_equals;
    while (!after_equals && *i + 1 < argc && !is_option(argv[*i + 1]) && list->n < OPTIONS_MAX_PATHS)
        list->path[list->n++] = argv[++*i];
    if (list->n == before)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s wants the name of a file or folder after it", option);
    if (list->n == OPTIONS_MAX_PATHS)
        return error_set(errp, DDP_E_USAGE, EINVAL, "more than %d names of files: put the files into a folder and name"
                         " that", OPTIONS_MAX_PATHS - 1);
    return 0;
}

/* Where a name of any length is kept, as argv has it; NULL: the option has another kind of value. */
static const char **name_of(struct options *o, const struct knob *k)
{
    const char **all[N_KNOBS] = {
        [CKPT] = &o->ckpt, [RESUME] = &o->resume, [INIT] = &o->init, [LOG_JSON] = &o->log_json,
    };
    return all[k - knobs];
}

static int take_knob(int argc, char **argv, int *i, const char *name, const char *text, struct knob_value *values,
                     struct options *o, ddp_error_t *errp)
{
    const struct knob *k = knob_find(knobs, N_KNOBS, name);
    if (!k)
        return error_set(errp, DDP_E_USAGE, EINVAL, "there is no option %.64s: ./train --help lists them", name);
    if (!text && k->type == KNOB_BOOL)
        text = "on";
    if (!text && *i + 1 < argc && !is_option(argv[*i + 1]))
        text = argv[++*i];
    if (!text)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s wants a value after it: %s", k->name, k->help);
    const char **where = name_of(o, k);
    if (where && !text[0])
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s wants a name after it: %s", k->name, k->help);
    if (where) {
        *where = text;
        return 0;
    }
    return knob_parse(k, text, "command line", &values[k - knobs], errp);
}

static int take_word(int argc, char **argv, int *i, struct knob_value *values, struct options *o, ddp_error_t *errp)
{
    char name[64];
    size_t n = strcspn(argv[*i], "=");
    const char *text = argv[*i][n] ? argv[*i] + n + 1 : NULL;
    if (!is_option(argv[*i]))
        return error_set(errp, DDP_E_USAGE, EINVAL, "\"%.64s\" belongs to no option: name files after --data",
                         argv[*i]);
    snprintf(name, sizeof name, "%.*s", (int)n, argv[*i]);
    if (!strcmp(name, "--data"))
        return take_paths(argc, argv, i, text, &o->data, errp);
    if (!strcmp(name, "--val"))
        return take_paths(argc, argv, i, text, &o->val, errp);
    return take_knob(argc, argv, i, name, text, values, o, errp);
}

static void use_int(const struct knob_value *v, size_t *ret)
{
    if (v->is_set)
        *ret = (size_t)v->i;
}

static void use_preset(const struct knob_value *v, struct options *o)
{
    const struct preset *p = &presets[v[MODEL].choice];
    o->model = p->model;
    o->batch = p->batch;
    o->lr = p->lr;
    o->warmup = p->warmup < (uint64_t)v[STEPS].i ? (double)p->warmup : (double)v[STEPS].i;
    use_int(&v[LAYERS], &o->model.layers);
    use_int(&v[WIDTH], &o->model.width);
    use_int(&v[HEADS], &o->model.heads);
    use_int(&v[CONTEXT], &o->model.context);
    use_int(&v[VOCAB], &o->model.vocab);
    use_int(&v[BATCH], &o->batch);
    if (v[LR].is_set)
        o->lr = v[LR].d;
    o->min_lr = v[MIN_LR].is_set ? v[MIN_LR].d : o->lr / 10;
}

static int use_warmup(const struct knob_value *v, struct options *o, ddp_error_t *errp)
{
    char text[sizeof v->text];
    if (!v->is_set)
        return 0;
    size_t n = strlen(v->text);
    o->warmup_in_epochs = n > 0 && v->text[n - 1] == 'e';
    snprintf(text, sizeof text, "%.*s", (int)(n - o->warmup_in_epochs), v->text);
    int64_t steps = 0;
    int rc = o->warmup_in_epochs ? num_double(text, 0, 1e6, &o->warmup) : num_i64(text, 0, (int64_t)BIG, &steps);
    if (!o->warmup_in_epochs)
        o->warmup = (double)steps;
    if (rc < 0)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--warmup=%.64s is not allowed: use steps (--warmup=20) or epochs"
                         " (--warmup=0.5e)", v->text);
    return 0;
}

/* From what --resume says to the folder to go on from. */
static int use_resume(struct options *o, ddp_error_t *errp)
{
    const char *said = o->resume;
    o->may_start_over = !said || !strcmp(said, "auto");
    if (said && o->may_start_over && !o->ckpt)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--resume=auto goes on from the newest checkpoint in --ckpt, which "
                         "is missing: add --ckpt DIR");
    if (o->may_start_over)
        o->resume = o->ckpt;
    else if (!strcmp(said, "none"))
        o->resume = NULL;
    else if (o->init)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--resume=%.100s and --init both say what to begin with: leave one "
                         "out", said);
    return 0;
}

static int check_ckpt(const struct options *o, ddp_error_t *errp)
{
    if (!o->ckpt && (o->ckpt_every >= 0 || o->keep >= 0))
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s is about checkpoints, but they have no folder: add --ckpt DIR",
                         o->ckpt_every >= 0 ? "--ckpt-every" : "--keep");
    return 0;
}

static int check(const struct options *o, ddp_error_t *errp)
{
    if (!o->data.n)
        return error_set(errp, DDP_E_USAGE, EINVAL, "no data: name files or folders to train on, as in"
                         " --data /usr/share/common-licenses (./train --help)");
    if (o->model.width % o->model.heads)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--width=%zu cannot be divided among --heads=%zu: take a width that"
                         " is a multiple of the heads", o->model.width, o->model.heads);
    if (o->min_lr > o->lr)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--min-lr=%g is above --lr=%g: take a smaller one", o->min_lr,
                         o->lr);
    return 0;
}

int options_parse(int argc, char **argv, struct options *ret, ddp_error_t *errp)
{
    struct knob_value v[N_KNOBS];
    struct options o = {0};
    if (knob_load(knobs, N_KNOBS, v, errp) < 0)
        return -1;
    for (int i = 1; i < argc; i++)
        if (take_word(argc, argv, &i, v, &o, errp) < 0)
            return -1;
    use_preset(v, &o);
    if (use_warmup(&v[WARMUP], &o, errp) < 0)
        return -1;
    o.steps = (uint64_t)v[STEPS].i;
    o.device = v[DEVICE].is_set ? (const char *const[]){"auto", "cpu", "cuda"}[v[DEVICE].choice] : NULL;
    o.dtype = v[DTYPE].is_set ? (const char *const[]){"f32", "bf16", "f16"}[v[DTYPE].choice] : NULL;
    o.seed = (uint64_t)v[SEED].i;
    o.val_every = (uint64_t)v[VAL_EVERY].i;
    o.val_windows = (uint64_t)v[VAL_WINDOWS].i;
    o.log_every = (uint64_t)v[LOG_EVERY].i;
    o.accum = (int)v[ACCUM].i;
    o.shards = (int)v[SHARDS].i;
    o.clip = v[CLIP].d;
    o.weight_decay = v[WEIGHT_DECAY].d;
    o.beta1 = v[BETA1].d;
    o.beta2 = v[BETA2].d;
    o.eps = v[EPS].d;
    o.sgd = v[OPTIMIZER].choice == 1;
    o.scale_lr = v[SCALE_LR].b;
    o.model.recompute = v[RECOMPUTE].b;
    o.print_hash = v[PRINT_HASH].b;
    o.ckpt_every = v[CKPT_EVERY].is_set ? v[CKPT_EVERY].i : -1;
    o.keep = v[KEEP].is_set ? v[KEEP].i : -1;
    if (use_resume(&o, errp) < 0 || check_ckpt(&o, errp) < 0 || check(&o, errp) < 0)
        return -1;
    *ret = o;
    return 0;
}

uint64_t options_warmup_steps(const struct options *o, uint64_t steps_per_epoch)
{
    return (uint64_t)(o->warmup_in_epochs ? o->warmup * (double)steps_per_epoch + 0.5 : o->warmup);
}
