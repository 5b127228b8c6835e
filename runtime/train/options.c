#include "runtime/train/options.h"

#include <errno.h>
#include <string.h>

#include "runtime/base/begins.h"
#include "runtime/base/knob.h"
#include "runtime/base/num.h"
#include "runtime/ddp.h"

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
    MODEL, LAYERS, WIDTH, HEADS, CONTEXT, VOCAB, STEPS, BATCH, ACCUM, SHARDS, DEVICE, DTYPE, NO_WGMMA, SEED,
    VAL_EVERY, VAL_WINDOWS, OPTIMIZER, LR, MIN_LR, SCALE_LR, WARMUP, CLIP, WEIGHT_DECAY, BETA1, BETA2, EPS, RECOMPUTE,
    CKPT, CKPT_EVERY, KEEP,
    RESUME, INIT, EVAL, LOG_EVERY, LOG_JSON, QUIET, PRINT_HASH,
    N_KNOBS
};

#define BIG 1e15 /* exact in a double */

#define AT(field) KNOB_FIELD(struct options, field)

/* Where there is no default it comes from the preset or from another option; the help line says so. */
static const struct knob knobs[N_KNOBS] = {
    [MODEL] = {.name = "--model", .type = KNOB_ENUM, .def = "tiny", .choices = PRESET_NAMES,
               .help = "preset of sizes and rates, see below"},
    [LAYERS] = {.name = "--layers", AT(model.layers), .type = KNOB_INT, .min = 1, .max = 10000,
                .help = "blocks (preset)"},
    [WIDTH] = {.name = "--width", AT(model.width), .type = KNOB_INT, .min = 1, .max = 1 << 20,
               .help = "width of the residual stream (preset)"},
    [HEADS] = {.name = "--heads", AT(model.heads), .type = KNOB_INT, .min = 1, .max = 1 << 20,
               .help = "attention heads; they divide the width (preset)"},
    [CONTEXT] = {.name = "--context", AT(model.context), .type = KNOB_INT, .min = 1, .max = 1 << 20,
                 .help = "tokens a sample has (preset)"},
    [VOCAB] = {.name = "--vocab", AT(model.vocab), .type = KNOB_INT, .min = 2, .max = 65536,
               .help = "vocabulary; bytes need 256 (preset)"},
    [STEPS] = {.name = "--steps", AT(steps), .type = KNOB_INT, .def = "300", .max = BIG, .help = "optimizer steps"},
    [BATCH] = {.name = "--batch", AT(batch), .type = KNOB_INT, .min = 1, .max = 1 << 20,
               .help = "samples per rank (or shard) and micro-step (preset)"},
    [ACCUM] = {.name = "--accum", AT(accum), .type = KNOB_INT, .def = "1", .min = 1, .max = 1 << 20,
               .help = "micro-steps per step (gradient accumulation)"},
    [SHARDS] = {.name = "--shards", AT(shards), .type = KNOB_INT, .def = "0", .max = 1 << 20,
                .help = "logical shards of --batch samples a step; 0: none, see below"},
    [DEVICE] = {.name = "--device", .type = KNOB_ENUM, .choices = DEVICE_NAMES,
                .help = "what to compute on; auto: a GPU where there is one that can be used (DDP_DEVICE)"},
    [DTYPE] = {.name = "--dtype", .type = KNOB_ENUM, .choices = "f32|bf16|f16",
               .help = "of matrices and products; bf16 on a GPU with heads of 64, else f32"},
    [NO_WGMMA] = {.name = "--no-wgmma", AT(no_wgmma), .type = KNOB_BOOL, .def = "off",
                  .help = "attention in 16 bits by mma.sync, as on other GPUs, where compute capability 9.0 has wgmma"},
    [SEED] = {.name = "--seed", AT(seed), .type = KNOB_INT, .def = "42", .max = BIG,
              .help = "of the initial weights and of the order of samples"},
    [VAL_EVERY] = {.name = "--val-every", AT(val_every), .type = KNOB_INT, .def = "0", .max = BIG,
                   .help = "steps between validations; 0: only at the end"},
    [VAL_WINDOWS] = {.name = "--val-windows", AT(val_windows), .type = KNOB_INT, .def = "0", .max = BIG,
                     .help = "validate on at most so many; 0: on all"},
    [OPTIMIZER] = {.name = "--optimizer", .type = KNOB_ENUM, .def = "adamw", .choices = DDP_RULES,
                   .help = "update rule"},
    [LR] = {.name = "--lr", AT(lr), .type = KNOB_DOUBLE, .max = 1000, .help = "learning rate at its peak (preset)"},
    [MIN_LR] = {.name = "--min-lr", AT(min_lr), .type = KNOB_DOUBLE, .max = 1000,
                .help = "where the cosine ends (a tenth of --lr)"},
    [SCALE_LR] = {.name = "--scale-lr", AT(scale_lr), .type = KNOB_BOOL, .def = "off",
                  .help = "multiply both rates by the number of ranks (or shards)"},
    [WARMUP] = {.name = "--warmup", .type = KNOB_STRING,
                .help = "linear warm-up, in steps, or in epochs: 0.5e (preset, at most --steps)"},
    [CLIP] = {.name = "--clip", AT(clip), .type = KNOB_DOUBLE, .def = "1", .max = BIG,
              .help = "greatest L2 norm of the gradient; 0: any"},
    [WEIGHT_DECAY] = {.name = "--weight-decay", AT(weight_decay), .type = KNOB_DOUBLE, .def = "0.1", .max = 1000,
                      .help = "on matrices only"},
    [BETA1] = {.name = "--beta1", AT(beta1), .type = KNOB_DOUBLE, .def = "0.9", .max = 0.9999999,
               .help = "AdamW's decay of the mean"},
    [BETA2] = {.name = "--beta2", AT(beta2), .type = KNOB_DOUBLE, .def = "0.95", .max = 0.9999999,
               .help = "AdamW's decay of the mean square"},
    [EPS] = {.name = "--eps", AT(eps), .type = KNOB_DOUBLE, .def = "1e-8", .max = 1,
             .help = "AdamW's guard against division by 0"},
    [RECOMPUTE] = {.name = "--recompute", AT(model.recompute), .type = KNOB_BOOL, .def = "off",
                   .help = "compute each block again for its backward pass: the same bits, less memory, more time"},
    [CKPT] = {.name = "--ckpt", AT(ckpt), .type = KNOB_PATH, .min = 1, .value = "DIR",
              .help = "folder for checkpoints, which all nodes share, see below"},
    [CKPT_EVERY] = {.name = "--ckpt-every", AT(ckpt_every), .type = KNOB_INT, .max = BIG,
                    .help = "steps between checkpoints; 0: only on a stop and at the end (by their cost)"},
    [KEEP] = {.name = "--keep", AT(keep), .type = KNOB_INT, .min = 1, .max = 1000000,
              .help = "newest checkpoints to keep (2)"},
    [RESUME] = {.name = "--resume", AT(resume), .type = KNOB_PATH, .min = 1, .value = "DIR",
                .help = "auto: go on from the newest checkpoint in --ckpt; none: do not; or a folder to go on from as "
                        "long as --ckpt has none (auto)"},
    [INIT] = {.name = "--init", AT(init), .type = KNOB_PATH, .min = 1, .value = "DIR",
              .help = "folder of a GPT-2's weights (safetensors and config.json) to begin with; sizes are those of "
                      "config.json where no option gives them"},
    [EVAL] = {.name = "--eval", AT(eval), .type = KNOB_BOOL, .def = "off",
              .help = "only print the validation loss of --init's weights"},
    [LOG_EVERY] = {.name = "--log-every", AT(log_every), .type = KNOB_INT, .def = "10", .max = BIG,
                   .help = "steps between live lines; 0: first and last; where it is not given they are 5 s apart from "
                           "step 100 on, and on a terminal a block takes their place"},
    [LOG_JSON] = {.name = "--log-json", AT(log_json), .type = KNOB_PATH, .min = 1, .value = "FILE",
                  .help = "file for one JSON object per step"},
    [QUIET] = {.name = "--quiet", AT(quiet), .type = KNOB_BOOL, .def = "off",
               .help = "print only errors, warnings and the last result"},
    [PRINT_HASH] = {.name = "--print-hash", AT(print_hash), .type = KNOB_BOOL, .def = "off",
                    .help = "at the end, a hash of all parameters, compared between the ranks"},
};

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
    knob_help(f, knobs, N_KNOBS);
    fprintf(f, "\n  preset     layers width heads context vocab batch     lr warm-up\n");
    for (const struct preset *p = presets; p < presets + N_PRESETS; p++)
        fprintf(f, "  %-10s %6zu %5zu %5zu %7zu %5zu %5zu %6g %7llu\n", p->name, p->model.layers, p->model.width,
                p->model.heads, p->model.context, p->model.vocab, p->batch, p->lr, (unsigned long long)p->warmup);
    fprintf(f, "\nAlso --help and --version. --steps 300 and --steps=300 are the same. OMP_NUM_THREADS is the number\n"
               "of threads per rank (1 where unset); results do not depend on it. With --shards=V, a power of two and\n"
               "a multiple of the ranks, they do not depend on the number of ranks either. --ddp-KEY=VALUE, or a\n"
               "variable such as DDP_TIMEOUT, sets libddp: libddp(7) lists every KEY. With --ckpt DIR the same\n"
               "command goes on where it was stopped or killed: the same losses, the same parameters. Exit code: 0\n"
               "trained to the end, 2 a wrong option, 75 stopped with a checkpoint (run it again), 143 stopped by\n"
               "SIGTERM without --ckpt, 1 anything else.\n");
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
    return begins(arg, "--");
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

static int take_word(int argc, char **argv, int *i, struct knob_value *values, struct options *o, ddp_error_t *errp)
{
    size_t n = strcspn(argv[*i], "=");
    const char *text = argv[*i][n] ? argv[*i] + n + 1 : NULL;
    if (!is_option(argv[*i]))
        return error_set(errp, DDP_E_USAGE, EINVAL, "\"%.64s\" belongs to no option: name files after --data",
                         argv[*i]);
    if (n == strlen("--data") && !strncmp(argv[*i], "--data", n))
        return take_paths(argc, argv, i, text, &o->data, errp);
    if (n == strlen("--val") && !strncmp(argv[*i], "--val", n))
        return take_paths(argc, argv, i, text, &o->val, errp);
    return knob_take(knobs, N_KNOBS, "./train --help", argc, argv, i, values, errp);
}

static void use_rates(const struct preset *p, struct options *o)
{
    if (!o->has_batch)
        o->batch = p->batch;
    if (!o->has_lr)
        o->lr = p->lr;
    if (!o->has_warmup)
        o->warmup = (double)(p->warmup < o->steps ? p->warmup : o->steps);
}

/* The first that is as wide; they are listed by width. */
static const struct preset *preset_for(size_t width)
{
    size_t i = 0;
    while (i + 1 < N_PRESETS && presets[i].model.width < width)
        i++;
    return &presets[i];
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

static int check_eval(const struct options *o, ddp_error_t *errp)
{
    if (o->eval && !o->init)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--eval judges the weights that --init names: add --init DIR, a "
                         "folder such as CKPT/step-00000100");
    if (o->eval && (o->ckpt || o->resume || o->log_json))
        return error_set(errp, DDP_E_USAGE, EINVAL, "--eval takes no step, saves nothing and goes on from nothing: "
                         "leave out %s", o->ckpt ? "--ckpt" : o->resume ? "--resume" : "--log-json");
    return 0;
}

static int check(const struct options *o, ddp_error_t *errp)
{
    if (!o->data.n && !(o->eval && o->val.n))
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
    static const char *const devices[] = {"auto", "cpu", "cuda"}, *const dtypes[] = {"f32", "bf16", "f16"};
    struct knob_value v[N_KNOBS];
    struct options o = {.ckpt_every = -1, .keep = -1};
    if (knob_load(knobs, N_KNOBS, v, errp) < 0)
        return -1;
    for (int i = 1; i < argc; i++)
        if (take_word(argc, argv, &i, v, &o, errp) < 0)
            return -1;
    bool is_named = strcmp(v[MODEL].source, "default") != 0;
    const struct preset *p = &presets[v[MODEL].choice];
    o.model = is_named || !v[INIT].is_set ? p->model : (struct model_config){0};
    knob_store(knobs, N_KNOBS, v, &o);
    o.has_batch = v[BATCH].is_set;
    o.has_lr = v[LR].is_set;
    o.has_min_lr = v[MIN_LR].is_set;
    o.has_warmup = v[WARMUP].is_set;
    o.has_log_every = strcmp(v[LOG_EVERY].source, "default") != 0;
    if (is_named || !v[INIT].is_set) {
        use_rates(p, &o);
        o.has_batch = o.has_lr = o.has_warmup = true;
    }
    if (use_warmup(&v[WARMUP], &o, errp) < 0)
        return -1;
    o.device = v[DEVICE].is_set ? devices[v[DEVICE].choice] : NULL;
    o.dtype = v[DTYPE].is_set ? dtypes[v[DTYPE].choice] : NULL;
    snprintf(o.optimizer, sizeof o.optimizer, "%.31s", v[OPTIMIZER].text);
    if (use_resume(&o, errp) < 0 || check_ckpt(&o, errp) < 0 || check_eval(&o, errp) < 0)
        return -1;
    *ret = o;
    return 0;
}

int options_complete(struct options *o, ddp_error_t *errp)
{
    use_rates(preset_for(o->model.width), o);
    if (!o->has_min_lr)
        o->min_lr = o->lr / 10;
    return check(o, errp);
}

uint64_t options_warmup_steps(const struct options *o, uint64_t steps_per_epoch)
{
    return (uint64_t)(o->warmup_in_epochs ? o->warmup * (double)steps_per_epoch + 0.5 : o->warmup);
}
