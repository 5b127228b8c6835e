/* config.json: what a checkpoint has, what released GPT-2 folders have, and what is refused. */
#include "t/unit/unit.h"

#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "runtime/train/config_json.h"

static const struct model_config tiny = {4, 128, 4, 64, 256, false}, small = {12, 768, 12, 1024, 50257, false};

/* The members of config.json beside the released GPT-2 of 124 million parameters. */
static const char released[] =
    "{\"activation_function\": \"gelu_new\", \"architectures\": [\"GPT2LMHeadModel\"], \"attn_pdrop\": 0.1,"
    " \"bos_token_id\": 50256, \"embd_pdrop\": 0.1, \"eos_token_id\": 50256, \"initializer_range\": 0.02,"
    " \"layer_norm_epsilon\": 1e-05, \"model_type\": \"gpt2\", \"n_ctx\": 1024, \"n_embd\": 768, \"n_head\": 12,"
    " \"n_layer\": 12, \"n_positions\": 1024, \"resid_pdrop\": 0.1, \"summary_type\": \"cls_index\","
    " \"task_specific_params\": {\"text-generation\": {\"do_sample\": true}}, \"vocab_size\": 50257}";

static int check(const char *text, const struct model_config *c, ddp_error_t *errp)
{
    struct model_config copy = *c;
    int rc = config_json_match(text, strlen(text), "x/config.json", &copy, errp);
    assert_memory_equal(&copy, c, sizeof copy);
    return rc;
}

static json_int_t number(const json_t *o, const char *key)
{
    assert_true(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}

static void what_is_made_has_every_size(void **state)
{
    (void)state;
    ddp_error_t e;
    char *text = config_json_make(&tiny), *again = config_json_make(&tiny);
    assert_string_equal(text, again);
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "model_type")), "gpt2");
    assert_string_equal(json_string_value(json_array_get(json_object_get(o, "architectures"), 0)), "GPT2LMHeadModel");
    assert_string_equal(json_string_value(json_object_get(o, "activation_function")), "gelu_new");
    assert_string_equal(json_string_value(json_object_get(o, "torch_dtype")), "float32");
    assert_int_equal(number(o, "n_layer"), 4);
    assert_int_equal(number(o, "n_embd"), 128);
    assert_int_equal(number(o, "n_head"), 4);
    assert_int_equal(number(o, "n_positions"), 64);
    assert_int_equal(number(o, "n_ctx"), 64);
    assert_int_equal(number(o, "vocab_size"), 256);
    assert_true(json_real_value(json_object_get(o, "layer_norm_epsilon")) == 1e-5);
    assert_true(json_real_value(json_object_get(o, "resid_pdrop")) == 0);
    assert_true(json_is_true(json_object_get(o, "tie_word_embeddings")));
    assert_true(json_is_null(json_object_get(o, "bos_token_id"))); /* bytes have no such token */
    assert_int_equal(check(text, &tiny, &e), 0);
    assert_int_equal(check(text, &small, &e), -1);
    json_decref(o);
    free(text);
    free(again);
    text = config_json_make(&small);
    o = json_loads(text, 0, NULL);
    assert_int_equal(number(o, "bos_token_id"), 50256);
    assert_int_equal(number(o, "eos_token_id"), 50256);
    json_decref(o);
    free(text);
}

static void released_folders_are_taken(void **state)
{
    (void)state;
    ddp_error_t e;
    assert_int_equal(check(released, &small, &e), 0);
    assert_int_equal(check("{}", &small, &e), 0); /* GPT2Config's defaults are this model */
    assert_int_equal(check(released, &tiny, &e), -1);
}

/* Sizes: the error names the member, both numbers and the option. */
static void sizes_that_differ_are_named(void **state)
{
    (void)state;
    static const struct {
        struct model_config c;
        const char *has[3];
    } cases[] = {
        {{24, 768, 12, 1024, 50257, false}, {"x/config.json: n_layer is 12", "has 24", "--layers 12"}},
        {{12, 1024, 12, 1024, 50257, false}, {"n_embd is 768", "has 1024", "--width 768"}},
        {{12, 768, 16, 1024, 50257, false}, {"n_head is 12", "has 16", "--heads 12"}},
        {{12, 768, 12, 512, 50257, false}, {"n_positions is 1024", "has 512", "--context 1024"}},
        {{12, 768, 12, 1024, 256, false}, {"vocab_size is 50257", "has 256", "--vocab 50257"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ddp_error_t e;
        assert_int_equal(check(released, &cases[i].c, &e), -1);
        assert_int_equal(e.domain, DDP_E_USAGE);
        for (size_t k = 0; k < 3; k++)
            assert_error_has(e, cases[i].has[k]);
    }
}

static void other_layers_and_broken_files_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"model_type\": \"llama\"}", "model_type is not \"gpt2\""},
        {"{\"activation_function\": \"gelu\"}", "activation_function"},
        {"{\"layer_norm_epsilon\": 1e-06}", "layer_norm_epsilon"},
        {"{\"layer_norm_epsilon\": \"1e-05\"}", "layer_norm_epsilon"},
        {"{\"n_inner\": 3000}", "n_inner"},
        {"{\"n_inner\": \"x\"}", "n_inner"},
        {"{\"scale_attn_weights\": false}", "scale_attn_weights"},
        {"{\"scale_attn_by_inverse_layer_idx\": true}", "scale_attn_by_inverse_layer_idx"},
        {"{\"tie_word_embeddings\": false}", "tie_word_embeddings"},
        {"{\"n_layer\": \"12\"}", "n_layer is not a whole number"},
        {"{\"n_layer\": -12}", "n_layer is -12"},
        {"{\"n_layer\": 12, \"n_layer\": 12}", "x/config.json:1: "},
        {"{\"n_layer\": 12", "x/config.json:1: "},
        {"[]", "not a JSON object"},
        {"", "x/config.json:"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ddp_error_t e;
        assert_int_equal(check(cases[i][0], &small, &e), -1);
        assert_error_has(e, cases[i][1]);
    }
    ddp_error_t e;
    assert_int_equal(check("{\"n_inner\": 3072}", &small, &e), 0);
    assert_int_equal(check("{\"activation_function\": \"gelu_pytorch_tanh\"}", &small, &e), 0);
}

static void sizes_that_nobody_gave_are_the_files(void **state)
{
    (void)state;
    static const char text[] = "{\"n_layer\": 3, \"n_embd\": 96, \"n_head\": 4, \"n_positions\": 40, \"n_ctx\": 40, "
                               "\"vocab_size\": 300, \"n_inner\": 384}";
    static const char *const bad[][2] = {{"{\"n_layer\": 0}", "n_layer is 0: 1 to 10000 are possible"},
                                         {"{\"n_embd\": -1}", "n_embd is -1: 1 to"},
                                         {"{\"vocab_size\": 65537}", "vocab_size is 65537: 1 to 65536"},
                                         {"{\"n_head\": 5}", "n_embd, 768, cannot be divided among n_head, 5"},
                                         {"{\"n_ctx\": 5}", "n_ctx is 5, but the model has 1024"}};
    ddp_error_t e;
    struct model_config c = {.layers = 3};
    assert_int_equal(config_json_match(text, strlen(text), "x", &c, &e), 0);
    assert_true(c.layers == 3 && c.width == 96 && c.heads == 4 && c.context == 40 && c.vocab == 300);
    c = (struct model_config){.width = 64};
    assert_int_equal(config_json_match(text, strlen(text), "x", &c, &e), -1);
    assert_error_has(e, "n_embd is 96, but the model has 64: leave the sizes out, or give --width 96");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        c = (struct model_config){0};
        assert_int_equal(config_json_match(bad[i][0], strlen(bad[i][0]), "x", &c, &e), -1);
        assert_error_has(e, bad[i][1]);
    }
}

static void write_file(const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void folders_are_read(void **state)
{
    (void)state;
    ddp_error_t e;
    struct model_config s = small, t = tiny;
    char dir[] = "/tmp/ddp-t.XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/config.json", dir);
    assert_int_equal(config_json_match_folder(dir, &s, &e), -1);
    assert_error_has(e, path);
    assert_error_has(e, "No such file");
    write_file(path, released, sizeof released - 1);
    assert_int_equal(config_json_match_folder(dir, &s, &e), 0);
    assert_int_equal(config_json_match_folder(dir, &t, &e), -1);
    static char large[CONFIG_JSON_MAX_BYTES + 1];
    memset(large, ' ', sizeof large);
    write_file(path, large, sizeof large);
    assert_int_equal(config_json_match_folder(dir, &s, &e), -1);
    assert_error_has(e, "longer than 65536 bytes");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(config_json_match_folder(dir, &s, &e), -1);
    assert_error_has(e, "is not a regular file");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_made_has_every_size),
    cmocka_unit_test(released_folders_are_taken),
    cmocka_unit_test(sizes_that_differ_are_named),
    cmocka_unit_test(other_layers_and_broken_files_are_refused),
    cmocka_unit_test(sizes_that_nobody_gave_are_the_files),
    cmocka_unit_test(folders_are_read),
};
UNIT_MAIN(tests)
