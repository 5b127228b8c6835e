#include "t/unit/unit.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/manifest.h"

static struct st_tensor tensor(const char *name, uint64_t n)
{
    struct st_tensor t = {.dtype = ST_F32, .ndim = 1, .shape = {n}};
    snprintf(t.name, sizeof t.name, "%s", name);
    return t;
}

static const struct manifest_state a_state = {
    .step = 100, .n_skipped = 1, .world_size = 4, .n_nodes = 2,
    .data = {.n_samples = (uint64_t)1 << 40, .seed = UINT64_MAX, .epoch = 3, .cursor = 12345, .batch = 8, .accum = 2,
             .shards = 4, .order = "ledger"},
    .optimizer = "name=adamw\nlr=0.001", .cpu = "A \"CPU\" \xc3\xa9", .kernels = "AVX2", .products = "own",
    .noted_data = "2 files", .summed_over = "nodes 3,1", .n_threads = 2, .reason = "periodic",
    .saved_at = "2026-11-21T20:15:02Z", .software = "slurm-ddp 0.1.0", .trained_s = 1234.567891, .n_runs = 2,
    .n_failures = 1,
    .cut = {.micro = 1, .n_ranks = 4, .scale = 8},
    .loss_scale = {.scale = 1024, .n_good = 1999},
};

/* A manifest of two files of tensors and one small one. */
static struct manifest a_manifest(void)
{
    struct st_tensor t[] = {tensor("a", 10), tensor("empty", 0), tensor("b", 15), tensor("c \"\xe2\x82\xac\"", 1)};
    struct files f;
    struct manifest m;
    ddp_error_t e;
    assert_int_equal(files_make(&f, &(struct files_group){"model", t, 4}, 1, 100, &e), 0);
    assert_int_equal(files_attach(&f, "config.json", "{}", &e), 0);
    uint64_t sum[] = {1, 0, UINT64_MAX, 0xdeadbeef};
    assert_int_equal(manifest_make(&m, &f, sum, &a_state, &e), 0);
    assert_int_equal(m.n_files, 4);
    assert_true(m.file[0].checksum == checksum_bytes(f.file[0].head, f.file[0].head_bytes));
    assert_true(m.file[3].checksum == checksum_bytes("{}", 2));
    assert_int_equal(m.file[3].head_bytes, 2);
    files_clear(&f);
    return m;
}

static char *encoded(size_t *n)
{
    struct manifest m = a_manifest();
    char *text = manifest_encode(&m, n);
    assert_non_null(text);
    manifest_clear(&m);
    return text;
}

static void assert_same(const struct manifest *m, const struct manifest *back)
{
    const struct manifest_state *s = &back->state;
    assert_int_equal(s->step, 100);
    assert_int_equal(s->n_skipped, 1);
    assert_int_equal(s->world_size, 4);
    assert_int_equal(s->n_nodes, 2);
    assert_memory_equal(&s->data, &a_state.data, sizeof s->data);
    assert_string_equal(s->optimizer, a_state.optimizer);
    assert_string_equal(s->cpu, a_state.cpu);
    assert_string_equal(s->kernels, a_state.kernels);
    assert_string_equal(s->products, a_state.products);
    assert_string_equal(s->noted_data, a_state.noted_data);
    assert_string_equal(s->summed_over, a_state.summed_over);
    assert_int_equal(s->n_threads, 2);
    assert_true(s->loss_scale.scale == 1024 && s->loss_scale.n_good == 1999);
    assert_string_equal(s->reason, a_state.reason);
    assert_string_equal(s->saved_at, a_state.saved_at);
    assert_string_equal(s->software, a_state.software);
    assert_true(s->trained_s == a_state.trained_s);
    assert_int_equal(s->n_runs, 2);
    assert_int_equal(s->n_failures, 1);
    assert_int_equal(s->cut.micro, 1);
    assert_int_equal(s->cut.n_ranks, 4);
    assert_true(s->cut.scale == 8);
    assert_int_equal(back->n_files, m->n_files);
    assert_int_equal(back->n_tensors, m->n_tensors);
    for (size_t i = 0; i < m->n_files; i++) {
        assert_string_equal(back->file[i].name, m->file[i].name);
        assert_true(back->file[i].n_bytes == m->file[i].n_bytes && back->file[i].head_bytes == m->file[i].head_bytes &&
                    back->file[i].checksum == m->file[i].checksum);
    }
    for (size_t i = 0; i < m->n_tensors; i++) {
        const struct files_tensor *a = &m->tensor[i].at, *b = &back->tensor[i].at;
        assert_string_equal(a->t.name, b->t.name);
        assert_memory_equal(a->t.shape, b->t.shape, sizeof a->t.shape);
        assert_true(a->t.dtype == b->t.dtype && a->t.ndim == b->t.ndim && a->t.first == b->t.first &&
                    a->t.n_bytes == b->t.n_bytes && a->file == b->file && a->at_bytes == b->at_bytes &&
                    m->tensor[i].checksum == back->tensor[i].checksum);
    }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    size_t n, again_n;
    struct manifest m = a_manifest(), back;
    ddp_error_t e = {0};
    char *text = manifest_encode(&m, &n);
    assert_int_equal(strlen(text), n);
    if (manifest_decode(text, n, &back, &e) < 0)
        fail_msg("%s\n%s", e.text, text);
    assert_same(&m, &back);
    char *again = manifest_encode(&back, &again_n);
    assert_int_equal(again_n, n);
    assert_memory_equal(again, text, n);
    manifest_clear(&m);
    manifest_clear(&back);
    manifest_clear(&back);
    free(text);
    free(again);
}

/* One bit anywhere, or any cut, and it is no manifest. */
static void every_change_is_seen(void **state)
{
    (void)state;
    size_t n;
    char *text = encoded(&n);
    struct manifest m;
    ddp_error_t e;
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            text[i] = (char)(text[i] ^ 1 << bit);
            e = (ddp_error_t){0};
            if (manifest_decode(text, n, &m, &e) == 0)
                fail_msg("bit %d of byte %zu", bit, i);
            assert_int_equal(e.domain, DDP_E_DATA);
            assert_error_has(e, MANIFEST_NAME);
            text[i] = (char)(text[i] ^ 1 << bit);
        }
    for (size_t i = 0; i < n; i++)
        assert_int_equal(manifest_decode(text, i, &m, &e), -1);
    free(text);
}

/* ---- manifests that have their checksum, but are wrong ---- */

static char *sealed(const char *body, size_t *ret_n)
{
    size_t n = strlen(body);
    char *text = malloc(n + 64);
    memcpy(text, body, n);
    *ret_n = n + (size_t)sprintf(text + n, "\"%016" PRIx64 "\"\n}\n", checksum_bytes(body, n));
    return text;
}

/* The good one with the first `from` replaced. */
static char *changed(const char *from, const char *to, size_t *ret_n)
{
    size_t n;
    char *text = encoded(&n), *body = malloc(n + strlen(to) + 1), *at = strstr(text, from);
    if (!at)
        fail_msg("no %s in %s", from, text);
    sprintf(body, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    char *last = strstr(body, "\n  \"checksum\": \"");
    last[strlen("\n  \"checksum\": ")] = 0;
    free(text);
    text = sealed(body, ret_n);
    free(body);
    return text;
}

#define assert_refused(from, to, why) refused(from, to, why, __LINE__)
static void refused(const char *from, const char *to, const char *why, int line)
{
    size_t n;
    char *text = changed(from, to, &n);
    struct manifest m = {.n_files = 77};
    ddp_error_t e = {0};
    if (manifest_decode(text, n, &m, &e) == 0)
        fail_msg("line %d: accepted %s for %s", line, to, from);
    if (!strstr(e.text, why) || e.domain != DDP_E_DATA || !strstr(e.text, MANIFEST_NAME))
        fail_msg("line %d: \"%s\" lacks \"%s\"", line, e.text, why);
    assert_int_equal(m.n_files, 77);
    free(text);
}

static void the_hostile_is_refused(void **state)
{
    (void)state;
    assert_refused("\"version\": 1", "\"version\": 2, \"other\": {}", "has version 2");
    assert_refused("\"version\": 1,", "", "lacks version");
    assert_refused("slurm-ddp checkpoint", "other", "is not of a slurm-ddp checkpoint");
    assert_refused("\"step\": 100,", "", "no step");
    assert_refused("\"seed\": \"18446744073709551615\",", "", "no data.seed");
    assert_refused("\"seed\": \"18446744073709551615\",", "\"seed\": 18446744073709551616,", "too big");
    assert_refused("\"step\": 100,", "\"step\": 100, \"step\": 100,", "duplicate");
    assert_refused("\"step\": 100,", "\"step\": -1,", "no step");
    assert_refused("\"step\": 100,", "\"step\": \"100\",", "no step");
    assert_refused("\"tensors\": {", "\"tensors\": {\"x\": {\"file\": 9, \"at\": 0, \"dtype\": \"U8\", \"shape\": [0], "
                   "\"checksum\": \"0000000000000000\"},", "tensor x lies in file 9 of 4");
    assert_refused("\"world_size\": 4,", "\"world_size\": 2147483648,", "no world_size");
    assert_refused("\"order\": \"ledger\"", "\"order\": \"ledgerledgerledger\"", "no data.order");
    assert_refused("1234.5678", "-1234.5678", "no trained_s");
    assert_refused("1234.5678", "1e9991234.5678", "overflow");
    assert_refused("\"files\": [", "\"files\": [{}, ", "file 0 lacks");
    assert_refused("\"files\":", "\"other\":", "lacks files or tensors");
    assert_refused("\"tensors\":", "\"other\":", "lacks files or tensors");
    assert_refused("\"config.json\"", "\"../config.json\"", "file 3 lacks");
    assert_refused("\"config.json\"", "\".hidden\"", "file 3 lacks");
    assert_refused("\"config.json\"", "\"manifest.json\"", "file 3 lacks");
    assert_refused("\"config.json\"", "\"model.safetensors.index.json\"", "twice");
    assert_refused("\"bytes\": 2,", "\"bytes\": 3,", "its tensors end at 2");
    assert_refused("\"bytes\": 2,", "\"bytes\": 1,", "file 3 lacks");
    assert_refused("\"bytes\": 4196,", "\"bytes\": 4195,", "its tensors end at 4196");
    assert_refused("\"head_bytes\": 4096,", "\"head_bytes\": 4095,", "begins at byte 4096");
    assert_refused("\"at\": 4136,", "\"at\": 4137,", "begins at byte 4137");
    assert_refused("\"at\": 4096,", "\"at\": 4136,", "begins at byte 4136");
    assert_refused("\"file\": 1,", "\"file\": 4,", "4100 bytes");
    assert_refused("\"file\": 1,", "\"file\": 2147483648,", "tensor c");
    assert_refused("\"file\": 1,", "\"file\": 3,", "model-00002-of-00002.safetensors has 4100 bytes");
    assert_refused("\"shape\": [10]", "\"shape\": [11]", "begins at byte");
    assert_refused("\"shape\": [10]", "\"shape\": [9223372036854775807]", "tensor a lacks");
    assert_refused("\"b\": {", "\"a\": {", "duplicate");
    assert_refused("\"b\": {", "\"\": {", "tensor  lacks");
    assert_refused("\"dtype\": \"F32\"", "\"dtype\": \"F33\"", "tensor a lacks");
    assert_refused("\"checksum\": \"0000000000000001\"", "\"checksum\": \"000000000000001\"", "tensor a lacks");
    assert_refused("\"checksum\": \"0000000000000001\"", "\"checksum\": \"000000000000000G\"", "tensor a lacks");
}

static void the_checksum_is_the_last_member(void **state)
{
    (void)state;
    size_t n;
    struct manifest m;
    ddp_error_t e = {0};
    char *text = sealed("{\n  \"other\": \"0123456789\",\n  \"x\": ", &n);
    assert_int_equal(manifest_decode(text, n, &m, &e), -1);
    assert_error_has(e, "does not end with its checksum");
    free(text);
}

static void unknown_members_are_read_over(void **state)
{
    (void)state;
    static const char *const where[] = {"\"step\": 100,", "\"seed\":", "\"bytes\": 2,", "\"file\": 1,"};
    for (int i = 0; i < 4; i++) {
        char to[200];
        size_t n;
        snprintf(to, sizeof to, "\"new\": [{\"x\": [null, true, -1.5e-7, \"\\\\\"]}, []], %s", where[i]);
        char *text = changed(where[i], to, &n);
        struct manifest m;
        ddp_error_t e = {0};
        if (manifest_decode(text, n, &m, &e) < 0)
            fail_msg("%s", e.text);
        assert_memory_equal(&m.state.data, &a_state.data, sizeof a_state.data);
        manifest_clear(&m);
        free(text);
    }
}

static void what_an_older_one_lacks_is_zero(void **state)
{
    (void)state;
    size_t n;
    char *text = changed("\"sums\": {", "\"other\": {", &n);
    struct manifest m;
    ddp_error_t e = {0};
    if (manifest_decode(text, n, &m, &e) < 0)
        fail_msg("%s", e.text);
    assert_true(m.state.cut.scale == 0 && m.state.cut.n_ranks == 4);
    manifest_clear(&m);
    free(text);
    text = changed("\"summation\": {", "\"another\": {", &n);
    assert_int_equal(manifest_decode(text, n, &m, &e), 0);
    assert_string_equal(m.state.summed_over, "");
    manifest_clear(&m);
    free(text);
}

static void states_are_checked_when_made(void **state)
{
    (void)state;
    struct files f = {0};
    struct manifest m;
    ddp_error_t e;
    struct manifest_state s = a_state;
    s.trained_s = NAN;
    assert_int_equal(manifest_make(&m, &f, NULL, &s, &e), -1);
    assert_error_has(e, "trained_s");
    s = a_state;
    s.data.accum = -1;
    assert_int_equal(manifest_make(&m, &f, NULL, &s, &e), -1);
    assert_error_has(e, "accum");
    s = a_state;
    memset(s.cpu, 0xe2, sizeof s.cpu); /* no end, no UTF-8 */
    assert_int_equal(manifest_make(&m, &f, NULL, &s, &e), 0);
    assert_int_equal(strlen(m.state.cpu), sizeof s.cpu - 1);
    assert_int_equal(strspn(m.state.cpu, "?"), sizeof s.cpu - 1);
    size_t n;
    char *text = manifest_encode(&m, &n);
    manifest_clear(&m);
    assert_int_equal(manifest_decode(text, n, &m, &e), 0);
    assert_int_equal(m.n_files + m.n_tensors, 0);
    manifest_clear(&m);
    free(text);
}

/* It would be committed, and no job could go on from it. */
static void what_cannot_be_read_is_not_made(void **state)
{
    const size_t most = (size_t)256 << 20;
    char *text = calloc(1, most + 1);
    struct files_small small = {.name = "state.json", .text = text, .n_bytes = most + 1};
    const struct files f = {.small = &small, .n_small = 1};
    struct manifest m;
    ddp_error_t e;
    (void)state;
    assert_non_null(text);
    assert_int_equal(manifest_make(&m, &f, NULL, &a_state, &e), -1);
    assert_error_has(e, "state.json has 268435457 bytes, more than the 256 MiB that are read back");
    small.n_bytes = most;
    assert_int_equal(manifest_make(&m, &f, NULL, &a_state, &e), 0);
    manifest_clear(&m);
    free(text);
}

static int n_left; /* so often jansson gets memory */

static void *little_memory(size_t n_bytes)
{
    void *p = n_left-- > 0 ? malloc(n_bytes) : NULL;
    if (!p)
        errno = ENOMEM;
    return p;
}

/* The newest would be passed over for an older one, and removed. */
static void one_for_which_there_is_no_memory_is_not_called_broken(void **state)
{
    (void)state;
    struct manifest m = a_manifest(), read;
    ddp_error_t e;
    size_t n;
    char *text = manifest_encode(&m, &n);
    for (int left = 0; left < 3; left++) { /* for more, jansson 2.14 writes past texts that it could not keep */
        n_left = left;
        json_set_alloc_funcs(little_memory, free);
        int rc = manifest_decode(text, n, &read, &e);
        json_set_alloc_funcs(malloc, free);
        assert_int_equal(rc, -1);
        assert_int_equal(e.domain, DDP_E_SYSTEM);
        assert_error_has(e, "manifest.json: no memory to read it");
    }
    errno = ENOMEM; /* of a call before */
    assert_int_equal(manifest_decode(text, n, &read, &e), 0);
    manifest_clear(&read);
    manifest_clear(&m);
    free(text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_written_is_read),       cmocka_unit_test(every_change_is_seen),
    cmocka_unit_test(the_hostile_is_refused),        cmocka_unit_test(the_checksum_is_the_last_member),
    cmocka_unit_test(unknown_members_are_read_over), cmocka_unit_test(what_an_older_one_lacks_is_zero),
    cmocka_unit_test(states_are_checked_when_made),  cmocka_unit_test(what_cannot_be_read_is_not_made),
    cmocka_unit_test(one_for_which_there_is_no_memory_is_not_called_broken),
};
UNIT_MAIN(tests)
