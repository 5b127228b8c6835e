#include "t/unit/unit.h"

#include "runtime/data/sampler.h"

/* t/data/sampler.txt holds lines "n seed epoch size rank: indices of torch.utils.data.DistributedSampler". */
static FILE *open_vectors(void)
{
    char path[4096];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/t/data/sampler.txt", top ? top : ".");
    return fopen(path, "r");
}

static void order_is_distributed_samplers(void **state)
{
    (void)state;
    FILE *f = open_vectors();
    assert_non_null(f);
    char *line = NULL;
    size_t room = 0;
    int n_lines = 0;
    while (getline(&line, &room, f) > 0) {
        unsigned long long n, seed, epoch;
        int size, rank, used;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%llu %llu %llu %d %d:%n", &n, &seed, &epoch, &size, &rank, &used), 5);
        sampler_t *s = sampler_create(&(struct sampler_config){n, seed});
        assert_non_null(s);
        sampler_set_epoch(s, epoch);
        uint64_t i = 0;
        char *p = line + used, *end;
        for (unsigned long long v = strtoull(p, &end, 10); end != p; v = strtoull(p, &end, 10)) {
            if (sampler_get(s, (uint64_t)rank + i * (uint64_t)size) != v)
                fail_msg("n %llu seed %llu epoch %llu size %d rank %d: entry %d differs", n, seed, epoch, size, rank,
                         (int)i);
            i++;
            p = end;
        }
        assert_int_equal(i, (n + (unsigned)size - 1) / (unsigned)size);
        sampler_destroy(s);
        n_lines++;
    }
    assert_true(n_lines >= 20);
    free(line);
    fclose(f);
}

static void every_sample_comes_once(void **state)
{
    (void)state;
    enum { N = 1000 };
    int seen[N] = {0};
    sampler_t *s = sampler_create(&(struct sampler_config){N, 7});
    sampler_set_epoch(s, 3);
    for (uint64_t i = 0; i < N; i++)
        seen[sampler_get(s, i)]++;
    assert_int_equal(sampler_get(s, N + 2), sampler_get(s, 2));
    sampler_destroy(s);
    for (int i = 0; i < N; i++)
        assert_int_equal(seen[i], 1);
}

static void epochs_can_be_revisited(void **state)
{
    (void)state;
    sampler_t *s = sampler_create(&(struct sampler_config){100, 42});
    sampler_set_epoch(s, 5);
    uint64_t first = sampler_get(s, 0), second = sampler_get(s, 1);
    sampler_t *fresh = sampler_create(&(struct sampler_config){100, 42});
    sampler_set_epoch(fresh, 6);
    sampler_set_epoch(s, 6);
    for (uint64_t i = 0; i < 100; i++)
        assert_true(sampler_get(s, i) == sampler_get(fresh, i));
    assert_false(sampler_get(s, 0) == first && sampler_get(s, 1) == second);
    sampler_destroy(fresh);
    sampler_set_epoch(s, 5);
    assert_true(sampler_get(s, 0) == first && sampler_get(s, 1) == second);
    sampler_destroy(s);
}

static void bad_configurations_are_refused(void **state)
{
    (void)state;
    assert_null(sampler_create(&(struct sampler_config){0, 0}));
    assert_null(sampler_create(&(struct sampler_config){SAMPLER_MAX + 1ull, 0}));
    sampler_destroy(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(order_is_distributed_samplers),
    cmocka_unit_test(every_sample_comes_once),
    cmocka_unit_test(epochs_can_be_revisited),
    cmocka_unit_test(bad_configurations_are_refused),
};
UNIT_MAIN(tests)
