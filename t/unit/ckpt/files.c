#include "t/unit/unit.h"

#include "runtime/base/json_limit.h"
#include "runtime/ckpt/files.h"

static struct st_tensor tensor(const char *name, uint64_t rows, uint64_t cols)
{
    struct st_tensor t = {.dtype = ST_F32, .ndim = 2, .shape = {rows, cols}};
    snprintf(t.name, sizeof t.name, "%s", name);
    return t;
}

static int make(struct files *f, const struct st_tensor *t, size_t n, uint64_t max_bytes, ddp_error_t *e)
{
    return files_make(f, &(struct files_group){"model", t, n}, 1, max_bytes, e);
}

/* Every file's head, read back, says of each tensor what `files` does; at_bytes are whole and in order. */
static void assert_whole(const struct files *f)
{
    size_t k = 0;
    for (int i = 0; i < f->n_files; i++) {
        struct st_head h;
        ddp_error_t e;
        uint64_t end = f->file[i].head_bytes;
        assert_int_equal(st_decode(f->file[i].head, f->file[i].head_bytes, f->file[i].n_bytes, &h, &e), 0);
        assert_int_equal(h.head_bytes % ST_DATA_ALIGN, 0);
        for (size_t n = 0; n < h.n; n++, k++) {
            assert_true(k < f->n_tensors && f->tensor[k].file == i);
            assert_int_equal(f->tensor[k].at_bytes, end);
            assert_int_equal(f->tensor[k].t.first, end - f->file[i].head_bytes);
            assert_string_equal(f->tensor[k].t.name, h.tensor[n].name);
            assert_int_equal(f->tensor[k].t.n_bytes, h.tensor[n].n_bytes);
            end += h.tensor[n].n_bytes;
        }
        assert_int_equal(end, f->file[i].n_bytes);
        st_clear(&h);
    }
    assert_int_equal(k, f->n_tensors);
}

static void files_fill_in_order(void **state)
{
    (void)state;
    struct st_tensor t[] = {tensor("a", 1, 10), tensor("b", 1, 15), tensor("c", 1, 1), tensor("big", 9, 9),
                            tensor("d", 1, 25)};
    struct files f;
    ddp_error_t e;
    assert_int_equal(make(&f, t, 5, 100, &e), 0);
    static const int file[] = {0, 0, 1, 2, 3};
    for (int i = 0; i < 5; i++)
        assert_int_equal(f.tensor[i].file, file[i]);
    assert_int_equal(f.n_files, 4);
    assert_string_equal(f.file[2].name, "model-00003-of-00004.safetensors");
    assert_whole(&f);
    assert_int_equal(f.n_small, 1);
    assert_string_equal(f.small[0].name, "model.safetensors.index.json");
    assert_string_equal(f.small[0].text, "{\n  \"metadata\": {\n    \"total_size\": 528\n  },\n  \"weight_map\": {\n"
                                         "    \"a\": \"model-00001-of-00004.safetensors\",\n"
                                         "    \"b\": \"model-00001-of-00004.safetensors\",\n"
                                         "    \"c\": \"model-00002-of-00004.safetensors\",\n"
                                         "    \"big\": \"model-00003-of-00004.safetensors\",\n"
                                         "    \"d\": \"model-00004-of-00004.safetensors\"\n  }\n}");
    assert_int_equal(f.small[0].n_bytes, strlen(f.small[0].text));
    files_clear(&f);
    files_clear(&f);
    assert_int_equal(make(&f, t, 5, (uint64_t)4 << 30, &e), 0);
    assert_int_equal(f.n_files, 1);
    assert_whole(&f);
    files_clear(&f);
}

static void groups_have_files_of_their_own(void **state)
{
    (void)state;
    struct st_tensor w = tensor("w", 2, 3), m[] = {tensor("w.exp_avg", 2, 3), tensor("w.exp_avg_sq", 2, 3)};
    struct files_group g[] = {{"model", &w, 1}, {"none", NULL, 0}, {"optimizer", m, 2}};
    struct files f;
    ddp_error_t e;
    assert_int_equal(files_make(&f, g, 3, 24, &e), 0);
    assert_int_equal(f.n_files, 3);
    assert_int_equal(f.n_tensors, 3);
    assert_string_equal(f.file[0].name, "model-00001-of-00001.safetensors");
    assert_string_equal(f.file[2].name, "optimizer-00002-of-00002.safetensors");
    assert_string_equal(f.small[1].name, "optimizer.safetensors.index.json");
    assert_whole(&f);
    files_clear(&f);
    assert_int_equal(files_make(&f, g, 2, 24, &e), 0); /* SGD */
    assert_int_equal(f.n_small, 1);
    files_clear(&f);
    assert_int_equal(files_make(&f, g + 1, 1, 24, &e), 0);
    assert_int_equal(f.n_files, 0);
    files_clear(&f);
    snprintf(m[0].name, sizeof m[0].name, "w");
    assert_int_equal(files_make(&f, g, 3, 24, &e), -1);
    assert_error_has(e, "w is there twice");
    assert_int_equal(e.domain, DDP_E_USAGE);
    snprintf(m[0].name, sizeof m[0].name, "w.exp_avg");
    g[2].name = "model";
    assert_int_equal(files_make(&f, g, 3, 24, &e), -1);
    assert_error_has(e, "two groups of tensors are named model");
    g[2].name = "a/b";
    assert_int_equal(files_make(&f, g, 3, 24, &e), -1);
    assert_error_has(e, "\"a/b\" cannot be part of a file's name");
    g[2].name = "a-name-of-more-bytes-than-a-file-of-a-checkpoint-can-have-in-its-name";
    assert_int_equal(files_make(&f, g, 3, 24, &e), -1);
    assert_error_has(e, "a-name-of-more-bytes");
}

/* The same tensors give the same bytes, and every cut is where the rule says. */
static void any_layout_is_whole(void **state)
{
    (void)state;
    uint32_t x = 99;
    for (int round = 0; round < 200; round++) {
        struct st_tensor t[60];
        struct files f, again;
        ddp_error_t e;
        uint64_t in_file = 0, most = 1 + (x >> 5) % 4000;
        size_t n = x % 61;
        for (size_t i = 0; i < n; i++) {
            char name[16];
            x = x * 1664525 + 1013904223;
            snprintf(name, sizeof name, "t%zu", i);
            t[i] = tensor(name, (x >> 8) % 20, (x >> 16) % 20);
        }
        x = x * 1664525 + 1013904223;
        assert_int_equal(make(&f, t, n, most, &e), 0);
        assert_int_equal(make(&again, t, n, most, &e), 0);
        assert_whole(&f);
        for (size_t i = 0; i < n; i++) {
            int file = f.tensor[i].file, before = i ? f.tensor[i - 1].file : -1;
            assert_true(file == before || file == before + 1);
            assert_int_equal(file != before, i == 0 || in_file + f.tensor[i].t.n_bytes > most);
            in_file = (file == before ? in_file : 0) + f.tensor[i].t.n_bytes;
        }
        for (int i = 0; i < f.n_files; i++)
            assert_memory_equal(f.file[i].head, again.file[i].head, f.file[i].head_bytes);
        files_clear(&f);
        files_clear(&again);
    }
}

static void more_than_4_gib(void **state)
{
    (void)state;
    struct st_tensor t[] = {tensor("a", 1 << 16, 1 << 15), tensor("b", 1, 1), tensor("c", 1 << 15, 1 << 15)};
    struct files f;
    ddp_error_t e;
    assert_int_equal(make(&f, t, 3, (uint64_t)1 << 40, &e), 0);
    assert_int_equal(f.n_files, 1);
    assert_true(f.tensor[2].at_bytes == f.file[0].head_bytes + ((uint64_t)1 << 33) + 4);
    assert_whole(&f);
    files_clear(&f);
    t[0] = tensor("a", (uint64_t)1 << 40, (uint64_t)1 << 40);
    assert_int_equal(make(&f, t, JSON_TENSORS_MAX + 1, (uint64_t)4 << 30, &e), -1); /* none of them is looked at */
    assert_error_has(e, "131073 tensors");
    assert_int_equal(make(&f, t, 3, (uint64_t)4 << 30, &e), -1);
    assert_error_has(e, "tensor a");
}

static void small_files_are_attached(void **state)
{
    (void)state;
    struct st_tensor t = tensor("a", 1, 10);
    struct files f;
    ddp_error_t e;
    assert_int_equal(make(&f, &t, 1, 100, &e), 0);
    char text[] = "{}";
    assert_int_equal(files_attach(&f, "config.json", text, &e), 0);
    text[0] = 'x';
    assert_string_equal(f.small[1].text, "{}");
    assert_int_equal(files_attach(&f, "config.json", "other", &e), 0);
    assert_int_equal(f.n_small, 2);
    assert_string_equal(f.small[1].text, "other");
    assert_int_equal(f.small[1].n_bytes, 5);
    static const char *const bad[] = {"", "a/b", "..", ".saving", "../x", "a b", "manifest.json",
                                      "model-00001-of-00001.safetensors", "model.safetensors.index.json",
                                      "0123456789012345678901234567890123456789012345678901234567890123"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(files_attach(&f, bad[i], "x", &e), -1);
    assert_int_equal(f.n_small, 2);
    files_clear(&f);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(files_fill_in_order), cmocka_unit_test(groups_have_files_of_their_own),
    cmocka_unit_test(any_layout_is_whole), cmocka_unit_test(more_than_4_gib),
    cmocka_unit_test(small_files_are_attached),
};
UNIT_MAIN(tests)
