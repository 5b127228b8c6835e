#include "runtime/train/config_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/model/layernorm.h"
#include "runtime/base/io.h"
#include "runtime/base/json_limit.h"
#include "runtime/base/json_read.h"

/* GPT-2's own vocabulary; its last token begins and ends a text. */
enum { GPT2_VOCAB = 50257, GPT2_END = 50256 };

/* What is the same in each of them; NULL: no memory. */
static json_t *constants(void)
{
    return json_pack("{s:[s], s:s, s:s, s:s, s:n, s:f, s:f, s:f, s:f, s:f, s:b, s:b, s:b}",
                     "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "activation_function", "gelu_new",
                     "torch_dtype", "float32", "n_inner", "attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop", 0.0,
                     "layer_norm_epsilon", 1e-5, "initializer_range", 0.02, "tie_word_embeddings", 1,
                     "scale_attn_weights", 1, "use_cache", 1);
}

static json_t *sizes(const struct model_config *c)
{
    json_int_t context = (json_int_t)c->context, vocab = (json_int_t)c->vocab;
    bool has_end = vocab == GPT2_VOCAB;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "n_layer", (json_int_t)c->layers, "n_embd",
                     (json_int_t)c->width, "n_head", (json_int_t)c->heads, "n_positions", context, "n_ctx", context,
                     "vocab_size", vocab, "bos_token_id", has_end ? json_integer(GPT2_END) : json_null(),
                     "eos_token_id", has_end ? json_integer(GPT2_END) : json_null());
}

char *config_json_make(const struct model_config *c)
{
    json_t *o = constants(), *s = sizes(c);
    char *text = NULL;
    if (o && s && json_object_update(o, s) == 0)
        text = json_dumps(o, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
    json_decref(o);
    json_decref(s);
    return text;
}

struct size_member {
    const char *key;
    json_int_t otherwise; /* GPT2Config's default; 0: the member may be missing */
    size_t *size;         /* 0: as the file says */
    json_int_t max;       /* that a file may say, as the option's */
    const char *option;
};

static int match_size(const json_t *o, const char *name, const struct size_member *m, ddp_error_t *errp)
{
    const json_t *v = json_object_get(o, m->key);
    if (!v && !m->otherwise)
        return 0;
    if (v && !json_is_integer(v))
        return error_set(errp, DDP_E_DATA, EINVAL, "%s: %s is not a whole number", name, m->key);
    json_int_t has = v ? json_integer_value(v) : m->otherwise;
    if (*m->size == 0 && (has < 1 || has > m->max))
        return error_set(errp, DDP_E_DATA, ERANGE, "%s: %s is %lld: 1 to %lld are possible", name, m->key,
                         (long long)has, (long long)m->max);
    if (*m->size == 0)
        *m->size = (size_t)has;
    if (has >= 0 && (size_t)has == *m->size)
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL, "%s: %s is %lld, but the model has %zu: leave the sizes out, or give "
                     "%s %lld", name, m->key, (long long)has, *m->size, m->option, (long long)has);
}

static int match_sizes(const json_t *o, const char *name, struct model_config *c, ddp_error_t *errp)
{
    const struct size_member all[] = {
        {"n_layer", 12, &c->layers, 10000, "--layers"},
        {"n_embd", 768, &c->width, 1 << 20, "--width"},
        {"n_head", 12, &c->heads, 1 << 20, "--heads"},
        {"n_positions", 1024, &c->context, 1 << 20, "--context"},
        {"n_ctx", 0, &c->context, 1 << 20, "--context"},
        {"vocab_size", GPT2_VOCAB, &c->vocab, 65536, "--vocab"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (match_size(o, name, &all[i], errp) < 0)
            return -1;
    if (c->width % c->heads)
        return error_set(errp, DDP_E_DATA, EINVAL, "%s: n_embd, %zu, cannot be divided among n_head, %zu", name,
                         c->width, c->heads);
    return 0;
}

static int refuse(const char *name, const char *key, const char *want, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_DATA, ENOTSUP, "%s: %s is not %s, and this trainer has no such layers: take a folder "
                     "of a GPT-2", name, key, want);
}

/* The approximation by tanh, which transformers computes in two ways. */
static bool is_gelu(const json_t *act)
{
    const char *name = json_string_value(act);
    return name && (!strcmp(name, "gelu_new") || !strcmp(name, "gelu_pytorch_tanh"));
}

/* What is the same in every GPT-2, and built into this trainer. */
static int check_kind(const json_t *o, const char *name, ddp_error_t *errp)
{
    const json_t *type = json_object_get(o, "model_type"), *act = json_object_get(o, "activation_function");
    const json_t *eps = json_object_get(o, "layer_norm_epsilon");
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "gpt2")))
        return refuse(name, "model_type", "\"gpt2\"", errp);
    if (act && !is_gelu(act))
        return refuse(name, "activation_function", "\"gelu_new\" or \"gelu_pytorch_tanh\"", errp);
    if (eps && !(json_is_number(eps) && (float)json_number_value(eps) == LAYERNORM_EPS))
        return refuse(name, "layer_norm_epsilon", "1e-05", errp);
    if (json_is_false(json_object_get(o, "scale_attn_weights")))
        return refuse(name, "scale_attn_weights", "true", errp);
    if (json_is_true(json_object_get(o, "scale_attn_by_inverse_layer_idx")))
        return refuse(name, "scale_attn_by_inverse_layer_idx", "false", errp);
    if (json_is_false(json_object_get(o, "tie_word_embeddings")))
        return refuse(name, "tie_word_embeddings", "true", errp);
    return 0;
}

static int check_inner(const json_t *o, const char *name, const struct model_config *c, ddp_error_t *errp)
{
    const json_t *inner = json_object_get(o, "n_inner");
    if (inner && !json_is_null(inner) && json_integer_value(inner) != (json_int_t)(4 * c->width))
        return refuse(name, "n_inner", "null or 4 times n_embd", errp);
    return 0;
}

int config_json_match(const char *text, size_t n, const char *name, struct model_config *c, ddp_error_t *errp)
{
    json_error_t why;
    int rc;
    if (json_limit_check(text, n, name, errp) < 0)
        return -1;
    json_t *o = json_read(text, n, JSON_REJECT_DUPLICATES, &why);
    if (!o && errno == ENOMEM)
        rc = error_set(errp, DDP_E_SYSTEM, ENOMEM, "%s: %s", name, why.text);
    else if (!o)
        rc = error_set(errp, DDP_E_DATA, EINVAL, "%s:%d: %s", name, why.line, why.text);
    else if (!json_is_object(o))
        rc = error_set(errp, DDP_E_DATA, EINVAL, "%s: not a JSON object", name);
    else
        rc = check_kind(o, name, errp) < 0 || match_sizes(o, name, c, errp) < 0 ? -1 : check_inner(o, name, c, errp);
    json_decref(o);
    return rc;
}

int config_json_match_folder(const char *dir, struct model_config *c, ddp_error_t *errp)
{
    char path[4096], name[200];
    size_t n;
    ddp_error_t why;
    if (snprintf(path, sizeof path, "%s/%s", dir, CONFIG_JSON_NAME) >= (int)sizeof path)
        return error_set(errp, DDP_E_USAGE, ENAMETOOLONG, "%.100s...: the path is too long", dir);
    char *text = io_read_file(path, CONFIG_JSON_MAX_BYTES, &n, &why);
    if (!text)
        return error_set(errp, why.domain, why.code, "%.170s: a folder is wanted that holds a GPT-2's weights and "
                         "config.json, as CKPT/step-00000100 does", why.text);
    snprintf(name, sizeof name, "%.150s/%s", dir, CONFIG_JSON_NAME);
    int rc = config_json_match(text, n, name, c, errp);
    free(text);
    return rc;
}
