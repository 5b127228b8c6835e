/* What is too large is refused before memory is taken for it, and what is merely large is read. */
#include "t/unit/unit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/json_limit.h"
#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/manifest.h"

#define MIB ((size_t)1 << 20)

static void limited(const char *text, size_t n, const char *why)
{
    ddp_error_t e = {0};
    int rc = json_limit_check(text, n, "t.json", &e);
    if (!why && rc < 0)
        fail_msg("%s", e.text);
    if (why) {
        assert_int_equal(rc, -1);
        assert_int_equal(e.domain, DDP_E_DATA);
        assert_error_has(e, why);
    }
}

/* `first` once, `part` n times, malloc; *ret_n is its length. */
static char *repeat(const char *first, const char *part, size_t n, size_t *ret_n)
{
    size_t len = strlen(part), at = strlen(first);
    char *text = malloc(at + n * len + 64);
    assert_non_null(text);
    memcpy(text, first, at);
    for (size_t i = 0; i < n; i++, at += len)
        memcpy(text + at, part, len);
    text[at] = 0;
    *ret_n = at;
    return text;
}

static void repeated(const char *first, const char *part, size_t n, const char *why)
{
    size_t bytes;
    char *text = repeat(first, part, n, &bytes);
    limited(text, bytes, why);
    free(text);
}

static void limits_are_where_they_say(void **state)
{
    (void)state;
    limited("", 0, NULL);
    limited("{\"a\": [1, 2, {\"b\": null}]}", 26, NULL);
    repeated("", "[", JSON_DEPTH_MAX, NULL);
    repeated("", "[", JSON_DEPTH_MAX + 1, "t.json: it has more than 16 levels");
    repeated("", "[]", JSON_NESTS_MAX, NULL);
    repeated("", "{}", JSON_NESTS_MAX + 1, "more than 393216 objects and arrays");
    repeated("[", "1,", JSON_VALUES_MAX - 2, NULL);
    repeated("[", "1,", JSON_VALUES_MAX, "more than 1835008 values");
}

static void strings_hold_anything(void **state)
{
    (void)state;
    repeated("[\"", "[{,", JSON_VALUES_MAX, NULL);
    repeated("[\"", "\\\"[", JSON_NESTS_MAX, NULL);
    repeated("[\"a\\\\\"", "[", JSON_DEPTH_MAX, "levels"); /* that one ends before them */
    limited("\"\\", 2, NULL);                             /* at the very end */
    limited("\"[[", 3, NULL);
}

/* Ends the manifest that text[0..*n) begins, with room behind it for that, as manifest_encode does. */
static void seal(char *text, size_t *n)
{
    *n += (size_t)sprintf(text + *n, ",\n  \"checksum\": ");
    *n += (size_t)sprintf(text + *n, "\"%016" PRIx64 "\"\n}\n", checksum_bytes(text, *n));
}

static bool limit_memory(size_t more)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    bool is_known = f && fscanf(f, "%lu", &pages) == 1;
    rlim_t all = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    if (f)
        fclose(f);
    return is_known && setrlimit(RLIMIT_AS, &(struct rlimit){all, all}) == 0;
}

/* AddressSanitizer maps terabytes, which no limit leaves room for. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_SHADOW true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_SHADOW true
#endif
#endif
#ifndef HAS_SHADOW
#define HAS_SHADOW false
#endif

/* Reads it in a process that has no more than `more` bytes for that. why NULL: it is read. */
static void read_within(size_t more, const char *text, size_t n, const char *why)
{
    int status;
    if (HAS_SHADOW)
        return;
    pid_t child = fork();
    if (child == 0) {
        struct manifest m = {.n_files = 0};
        ddp_error_t e = {0};
        if (!limit_memory(more))
            _exit(9);
        int rc = manifest_decode(text, n, &m, &e);
        if (rc < 0)
            fprintf(stderr, "# %s\n", e.text);
        _exit(why ? rc == 0 || !strstr(e.text, why) : rc != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void the_hostile_takes_no_memory(void **state)
{
    (void)state;
    static const struct { const char *part, *why; size_t n; } texts[] = {
        {"[],", "more than 393216 objects and arrays", 8 * MIB},
        {"0,", "more than 1835008 values", 8 * MIB},
        {"[", "more than 16 levels", 24 * MIB},
        {"[],", "larger than any manifest, 32 MiB", 11 * MIB},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t n;
        char *text = repeat("{\n  \"x\": [", texts[i].part, texts[i].n, &n);
        text[n - 1] = ']';
        seal(text, &n);
        read_within(8 * MIB, text, n, texts[i].why);
        free(text);
    }
}

/* The most that is let through: members with names, objects as far as there may be. */
static void the_worst_has_a_bound(void **state)
{
    (void)state;
    const size_t n_nests = JSON_NESTS_MAX - 4, n_all = JSON_VALUES_MAX - 8 - n_nests;
    char *text = malloc(n_all * 24), *p = text + sprintf(text, "{\n  \"x\": {");
    assert_non_null(text);
    for (size_t i = 0; i < n_all; i++)
        p += sprintf(p, "%s\"%zx\":%s", i ? "," : "", i, i < n_nests ? "{}" : "\"\"");
    p += sprintf(p, "}");
    size_t n = (size_t)(p - text);
    assert_true(n < 32 * MIB);
    seal(text, &n);
    read_within(384 * MIB, text, n, "is not of a slurm-ddp checkpoint");
    free(text);
}

/* Whole files of n tensors with names of some length, in one file. */
static void read_large(size_t n_tensors, size_t more)
{
    struct manifest m = {.n_files = 1, .n_tensors = n_tensors};
    m.file = calloc(1, sizeof *m.file);
    m.tensor = calloc(n_tensors, sizeof *m.tensor);
    assert_true(m.file && m.tensor);
    strcpy(m.file->name, "model-00001-of-00001.safetensors");
    m.file->n_bytes = 4096 + 64 * n_tensors;
    m.file->head_bytes = 4096;
    for (size_t i = 0; i < n_tensors; i++) {
        struct st_tensor *t = &m.tensor[i].at.t;
        snprintf(t->name, sizeof t->name, "model.layers.%zu.mlp.experts.%zu.down_proj.weight/exp_avg_sq", i / 64,
                 i % 64);
        t->ndim = 2;
        t->shape[0] = t->shape[1] = 4;
        t->n_bytes = 64;
        m.tensor[i].at.at_bytes = 4096 + 64 * i;
        m.tensor[i].checksum = i * 0x9e3779b97f4a7c15u;
    }
    size_t n;
    char *text = manifest_encode(&m, &n);
    manifest_clear(&m);
    assert_non_null(text);
    assert_true(n < MANIFEST_BYTES_MAX);
    read_within(more, text, n, NULL);
    assert_int_equal(manifest_decode(text, n, &m, NULL), 0);
    assert_int_equal(m.n_tensors, n_tensors);
    manifest_clear(&m);
    free(text);
}

static void large_manifests_are_read(void **state)
{
    (void)state;
    read_large(20000, 64 * MIB);
    read_large(JSON_TENSORS_MAX, 320 * MIB);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(limits_are_where_they_say),  cmocka_unit_test(strings_hold_anything),
    cmocka_unit_test(the_hostile_takes_no_memory), cmocka_unit_test(the_worst_has_a_bound),
    cmocka_unit_test(large_manifests_are_read),
};
UNIT_MAIN(tests)
