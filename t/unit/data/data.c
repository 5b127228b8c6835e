#include "t/unit/unit.h"

#include "runtime/data/data.h"

static struct data opened(const struct data_config *cfg)
{
    struct data d;
    ddp_error_t e;
    if (data_open(&d, cfg, &e) < 0)
        fail_msg("%s", e.text);
    return d;
}

/* Ranks and micro-steps together hand out every entry of an epoch, in DistributedSampler's order, and every rank's
 * steps have the same shape. */
static void distributed_is_handed_out_whole(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        int size, accum;
        size_t batch;
    } cases[] = {{12, 1, 1, 3}, {13, 2, 1, 3}, {100, 4, 2, 3}, {31, 3, 3, 2}, {5, 1, 1, 5}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint64_t size = (uint64_t)cases[c].size, per_rank = (cases[c].n + size - 1) / size;
        for (uint64_t rank = 0; rank < size; rank++) {
            struct data d = opened(&(struct data_config){.n_samples = cases[c].n,
                                                         .seed = 9,
                                                         .order = DATA_DISTRIBUTED,
                                                         .rank = (int)rank,
                                                         .n_ranks = cases[c].size,
                                                         .batch = cases[c].batch,
                                                         .accum = cases[c].accum});
            sampler_t *want = sampler_create(&(struct sampler_config){cases[c].n, 9});
            for (uint64_t epoch = 0; epoch < 3; epoch++) {
                sampler_set_epoch(want, epoch);
                uint64_t i = 0;
                int micro = 0;
                while (i < per_rank) {
                    struct data_batch b = data_next(&d);
                    assert_int_equal(b.epoch, epoch);
                    assert_int_equal(b.shard, rank);
                    assert_int_equal(b.micro, micro);
                    assert_int_equal(b.is_first, micro == 0);
                    micro = (micro + 1) % cases[c].accum;
                    for (size_t k = 0; k < b.n; k++)
                        assert_int_equal(b.ids[k], sampler_get(want, rank + i++ * size));
                    assert_int_equal(b.is_last, micro == 0 || i == per_rank);
                    if (b.is_last)
                        micro = 0;
                }
                assert_int_equal(i, per_rank);
            }
            sampler_destroy(want);
            data_close(&d);
        }
    }
}

/* With V shards, step s of an epoch takes from shard v the entries [sB, sB + B) of replica v out of V, whatever the
 * number of ranks; the last step of an epoch takes what is left, from every shard as much. */
static void distributed_shards_are_the_same_on_any_number_of_ranks(void **state)
{
    (void)state;
    enum { V = 8, B = 3 };
    static const uint64_t sizes[] = {24, 100, 192, 193}; /* entries per shard: 3, 13, 24, 25 */
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++)
        for (int n_ranks = 1; n_ranks <= V; n_ranks *= 2)
            for (int rank = 0; rank < n_ranks; rank++) {
                struct data d = opened(&(struct data_config){
                    .n_samples = sizes[c], .seed = 5, .order = DATA_DISTRIBUTED, .rank = rank, .n_ranks = n_ranks,
                    .batch = B, .accum = 1, .n_shards = V});
                sampler_t *want = sampler_create(&(struct sampler_config){sizes[c], 5});
                uint64_t per_shard = (sizes[c] + V - 1) / V;
                for (uint64_t epoch = 0; epoch < 2; epoch++) {
                    sampler_set_epoch(want, epoch);
                    for (uint64_t at = 0; at < per_shard; at += B)
                        for (int micro = 0; micro < V / n_ranks; micro++) {
                            struct data_batch b = data_next(&d);
                            assert_int_equal(b.epoch, epoch);
                            assert_int_equal(b.shard, rank * (V / n_ranks) + micro);
                            assert_int_equal(b.n, per_shard - at < B ? per_shard - at : B);
                            assert_int_equal(b.is_first, micro == 0);
                            assert_int_equal(b.is_last, micro == V / n_ranks - 1);
                            for (size_t k = 0; k < b.n; k++)
                                assert_int_equal(b.ids[k], sampler_get(want, (uint64_t)b.shard + (at + k) * V));
                        }
                }
                sampler_destroy(want);
                data_close(&d);
            }
}

/* The ledger once more, in the simplest way: an epoch is a list, and sample i of a step is of the first chunk c with
 * i < L (c + 1) / C. */
static void ledger_is_as_the_header_says(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        int size, accum, shards;
        size_t batch;
    } cases[] = {{12, 1, 1, 0, 3},  {13, 2, 1, 0, 3},  {100, 4, 2, 0, 3}, {31, 3, 3, 0, 2}, {5, 1, 1, 0, 5},
                 {97, 3, 4, 0, 2},  {73, 4, 3, 0, 6},  {97, 1, 1, 8, 3},  {97, 4, 1, 8, 3}, {99, 8, 1, 8, 3},
                 {24, 2, 1, 8, 3},  {193, 2, 1, 16, 3}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int rank = 0; rank < cases[c].size; rank++) {
            int shards = cases[c].shards, size = cases[c].size;
            struct data d = opened(&(struct data_config){.n_samples = cases[c].n, .seed = 4, .rank = rank,
                                                         .n_ranks = size, .batch = cases[c].batch,
                                                         .accum = cases[c].accum, .n_shards = shards});
            for (uint64_t epoch = 0; epoch < 3; epoch++) {
                struct ledger l = ledger_of(cases[c].n, 4, epoch);
                for (uint64_t at = 0; at < cases[c].n;) {
                    uint64_t left = cases[c].n - at, n_chunks = 0, taken = 0;
                    int n_micro = 0;
                    for (; n_micro < cases[c].accum && taken < left; n_micro++) {
                        n_chunks += (uint64_t)(shards ? shards : size);
                        taken = n_chunks * cases[c].batch;
                    }
                    taken = taken < left ? taken : left;
                    size_t n_in[64] = {0};
                    for (uint64_t i = 0, of = 0; i < taken; i++) {
                        while (i >= taken * (of + 1) / n_chunks)
                            of++;
                        n_in[of]++;
                    }
                    int n_calls = shards ? shards / size : n_micro;
                    for (int micro = 0; micro < n_calls; micro++) {
                        int chunk = shards ? rank * n_calls + micro : micro * size + rank;
                        uint64_t entry = at;
                        for (int k = 0; k < chunk; k++)
                            entry += n_in[k];
                        struct data_batch b = data_next(&d);
                        assert_int_equal(b.epoch, epoch);
                        assert_int_equal(b.shard, shards ? chunk : rank);
                        assert_int_equal(b.is_first, micro == 0);
                        assert_int_equal(b.is_last, micro == n_calls - 1);
                        assert_int_equal(b.n, n_in[chunk]);
                        for (size_t k = 0; k < b.n; k++)
                            assert_int_equal(b.ids[k], ledger_get(&l, entry + k));
                    }
                    at += taken;
                }
            }
            data_close(&d);
        }
}

/* --- kills, resumes, other numbers of ranks --- */

static uint64_t random_state = 88172645463325252u;

static uint64_t below(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

enum { MOST = 160, RANKS = 8, EPOCHS = 4 };

struct job {
    struct data_config c;
    struct data rank[RANKS];
    int used[EPOCHS + 1][MOST], saved_used[EPOCHS + 1][MOST]; /* [.., samples] how often, and at the checkpoint */
    struct data_position saved;
    bool is_saved;
};

static void start(struct job *j, int n_ranks)
{
    ddp_error_t e;
    j->c.n_ranks = n_ranks;
    for (int r = 0; r < n_ranks; r++) {
        j->c.rank = r;
        j->rank[r] = opened(&j->c);
        if (j->is_saved)
            assert_int_equal(data_seek(&j->rank[r], &j->saved, &e), 0);
    }
}

static void micro_step(struct job *j)
{
    struct data_position first = data_position(&j->rank[0]);
    size_t most = 0, least = SIZE_MAX;
    for (int r = 0; r < j->c.n_ranks; r++) {
        struct data_position at = data_position(&j->rank[r]);
        assert_memory_equal(&at, &first, sizeof at);
        struct data_batch next = data_peek(&j->rank[r]), b = data_next(&j->rank[r]);
        assert_true(next.n == b.n && next.epoch == b.epoch && next.micro == b.micro && next.is_last == b.is_last);
        for (size_t i = 0; i < b.n; i++) {
            assert_int_equal(next.ids[i], b.ids[i]);
            assert_true(b.ids[i] < j->c.n_samples);
            if (b.epoch <= EPOCHS)
                j->used[b.epoch][b.ids[i]]++;
        }
        most = b.n > most ? b.n : most;
        least = b.n < least ? b.n : least;
    }
    assert_true(most <= j->c.batch && most - least <= 1 && (most >= 1 || j->c.n_shards));
}

static void save(struct job *j)
{
    j->saved = data_position(&j->rank[0]);
    j->is_saved = true;
    memcpy(j->saved_used, j->used, sizeof j->used);
}

/* What was done since the checkpoint is lost. */
static void end_job(struct job *j)
{
    for (int r = 0; r < j->c.n_ranks; r++)
        data_close(&j->rank[r]);
    memcpy(j->used, j->saved_used, sizeof j->used);
}

static bool is_possible(const struct data_config *c, int n_ranks)
{
    if (c->n_shards)
        return c->n_shards % n_ranks == 0;
    return c->batch * (uint64_t)c->accum * (uint64_t)n_ranks <= c->n_samples;
}

static int some_ranks(const struct data_config *c)
{
    int n;
    do
        n = 1 + (int)below(RANKS);
    while (!is_possible(c, n));
    return n;
}

static struct data_config some_job(enum data_order order)
{
    struct data_config c = {.seed = below(1000), .order = order, .batch = 1 + below(5), .accum = 1 + (int)below(4)};
    if (below(2)) {
        c.accum = 1;
        c.n_shards = 1 << below(5);
    }
    uint64_t least = c.batch * (uint64_t)(c.n_shards ? c.n_shards : c.accum);
    c.n_samples = least + below(MOST - least + 1);
    return c;
}

/* A checkpoint within a step goes on with as many ranks. */
static void train_with_kills(struct job *j)
{
    start(j, some_ranks(&j->c));
    save(j);
    while (j->saved.epoch < EPOCHS) {
        for (uint64_t n = below(40); n > 0; n--) {
            micro_step(j);
            bool is_whole = data_position(&j->rank[0]).micro == 0;
            if (is_whole ? below(4) == 0 : below(12) == 0)
                save(j);
        }
        end_job(j);
        start(j, j->saved.micro || below(2) ? j->c.n_ranks : some_ranks(&j->c));
    }
    end_job(j);
}

static void every_sample_once_whatever_happens(void **state)
{
    (void)state;
    static struct job j;
    for (int k = 0; k < 400; k++) {
        j = (struct job){.c = some_job(DATA_LEDGER)};
        train_with_kills(&j);
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
            for (uint64_t i = 0; i < j.c.n_samples; i++)
                assert_int_equal(j.used[epoch][i], 1);
    }
}

/* Only the padding of an epoch's end comes again: entries of its head, fewer than there are replicas. */
static void distributed_pads_at_the_end_alone(void **state)
{
    (void)state;
    static struct job j;
    for (int k = 0; k < 400; k++) {
        j = (struct job){.c = some_job(DATA_DISTRIBUTED)};
        train_with_kills(&j);
        sampler_t *order = sampler_create(&(struct sampler_config){j.c.n_samples, j.c.seed});
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
            sampler_set_epoch(order, epoch);
            bool is_padding = true;
            for (uint64_t i = 0, n_more = 0; i < j.c.n_samples; i++) {
                int used = j.used[epoch][sampler_get(order, i)];
                is_padding = is_padding && used == 2;
                assert_int_equal(used, 1 + is_padding);
                n_more += is_padding;
                assert_true(n_more < (uint64_t)(j.c.n_shards ? j.c.n_shards : RANKS));
            }
        }
        sampler_destroy(order);
    }
}

/* A shard's samples, step by step, are those of a job on one rank, also where the number of ranks changes. */
static void shards_keep_their_samples(void **state)
{
    (void)state;
    enum { V = 16, STEPS = 60 };
    for (int k = 0; k < 40; k++) {
        struct data_config c = {.n_samples = 100 + below(60), .seed = below(99), .order = (enum data_order)(k % 2),
                                .n_ranks = 1, .batch = 1 + below(6), .accum = 1, .n_shards = V};
        struct data one = opened(&c);
        struct data_position at = data_position(&one);
        for (int step = 0; step < STEPS; step++) {
            struct data some[RANKS];
            int n_ranks = 1 << below(4);
            ddp_error_t e;
            for (int r = 0; r < n_ranks; r++) {
                struct data_config own = c;
                own.rank = r;
                own.n_ranks = n_ranks;
                some[r] = opened(&own);
                assert_int_equal(data_seek(&some[r], &at, &e), 0);
            }
            for (int v = 0; v < V; v++) {
                struct data_batch want = data_next(&one), got = data_next(&some[v / (V / n_ranks)]);
                assert_true(want.shard == v && got.shard == v && got.n == want.n && got.epoch == want.epoch);
                assert_memory_equal(got.ids, want.ids, want.n * sizeof *want.ids);
            }
            at = data_position(&one);
            for (int r = 0; r < n_ranks; r++)
                data_close(&some[r]);
        }
        data_close(&one);
    }
}

static void positions_that_are_not_are_refused(void **state)
{
    (void)state;
    ddp_error_t e;
    struct data d = opened(&(struct data_config){.n_samples = 100, .n_ranks = 1, .batch = 4, .accum = 3});
    assert_int_equal(data_seek(&d, &(struct data_position){3, 99, 0}, &e), 0);
    assert_int_equal(data_seek(&d, &(struct data_position){5, 100, 0}, &e), -1);
    assert_error_has(e, "position 100 in epoch 5: there are only 100 samples");
    assert_int_equal(data_seek(&d, &(struct data_position){0, 0, 3}, &e), -1);
    assert_error_has(e, "micro-step 3 of a step of 3");
    assert_int_equal(data_seek(&d, &(struct data_position){0, 94, 2}, &e), -1);
    assert_error_has(e, "micro-step 2 of a step of 2");
    assert_int_equal(data_seek(&d, &(struct data_position){0, 0, -1}, &e), -1);
    struct data_batch b = data_next(&d);
    assert_true(b.epoch == 3 && b.n == 1 && b.is_first && b.is_last);
    assert_int_equal(data_position(&d).epoch, 4);
    data_close(&d);
}

static void refuses(const struct data_config *cfg, const char *what, const char *cure)
{
    struct data d;
    ddp_error_t e;
    assert_int_equal(data_open(&d, cfg, &e), -1);
    assert_int_equal(e.domain, DDP_E_USAGE);
    assert_error_has(e, what);
    assert_error_has(e, cure);
}

static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    const struct data_config good = {.n_samples = 100, .n_ranks = 4, .batch = 12, .accum = 2};
    struct data_config c = good;
    c.batch = 13, refuses(&c, "only 100", "smaller batch");
    c.batch = SIZE_MAX, refuses(&c, "only 100", "smaller batch");
    c.accum = INT32_MAX, refuses(&c, "2147483647 micro-steps on 4 ranks", "too many");
    c = good, c.batch = 0, refuses(&c, "batch of 0", "at least 1");
    c = good, c.n_samples = 0, refuses(&c, "0 samples", "1..");
    c = good, c.n_samples = LEDGER_MAX + 1, refuses(&c, "samples", "1..9223372036854775808");
    c = good, c.n_samples = SAMPLER_MAX + 1ull, c.order = DATA_DISTRIBUTED, refuses(&c, "214748364 samples", "ledger");
    c = good, c.n_shards = -1, refuses(&c, "-1 shards", "at least");
    c = good, c.n_shards = 12, refuses(&c, "12 shards", "power of two");
    c = good, c.n_shards = 8, c.n_ranks = 3, refuses(&c, "on 3 ranks", "start 1, 2, 4");
    c = good, c.n_shards = 2, c.accum = 1, refuses(&c, "2 shards on 4 ranks", "at least 4 shards");
    c = good, c.n_shards = 8, refuses(&c, "2 micro-steps", "1 micro-step and 2 times as many shards");
    c = good, c.n_shards = 16, c.accum = 1, refuses(&c, "12 x 1 x 16", "shards");
    data_close(&(struct data){0});
}

/* Where an entry times a chunk's number is beyond 64 bits. */
static void the_largest_steps_are_cut_exactly(void **state)
{
    (void)state;
    struct data_config c = {.n_samples = (uint64_t)1 << 40, .seed = 5, .rank = INT32_MAX - 1, .n_ranks = INT32_MAX,
                            .batch = 4, .accum = 2};
    struct data d = opened(&c);
    struct ledger l = ledger_of(c.n_samples, c.seed, 0);
    for (uint64_t micro = 0; micro < 2; micro++) {
        struct data_batch b = data_next(&d);
        uint64_t first = c.batch * (micro * INT32_MAX + (uint64_t)c.rank);
        assert_int_equal(b.n, c.batch);
        for (size_t i = 0; i < b.n; i++)
            assert_true(b.ids[i] == ledger_get(&l, first + i));
    }
    data_close(&d);
}

static void a_look_ahead_leaves_what_was_handed_out(void **state)
{
    (void)state;
    struct data d = opened(&(struct data_config){.n_samples = 100, .n_ranks = 1, .batch = 3, .accum = 1});
    struct data_batch b = data_next(&d);
    uint64_t ids[3];
    memcpy(ids, b.ids, sizeof ids);
    data_peek(&d);
    assert_memory_equal(ids, b.ids, sizeof ids);
    data_close(&d);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(distributed_is_handed_out_whole),
    cmocka_unit_test(distributed_shards_are_the_same_on_any_number_of_ranks),
    cmocka_unit_test(ledger_is_as_the_header_says),
    cmocka_unit_test(every_sample_once_whatever_happens),
    cmocka_unit_test(distributed_pads_at_the_end_alone),
    cmocka_unit_test(shards_keep_their_samples),
    cmocka_unit_test(positions_that_are_not_are_refused),
    cmocka_unit_test(what_does_not_go_together_is_refused),
    cmocka_unit_test(the_largest_steps_are_cut_exactly),
    cmocka_unit_test(a_look_ahead_leaves_what_was_handed_out),
};
UNIT_MAIN(tests)
