/* What the 128 threads of a warpgroup do together. From the PTX ISA, "Asynchronous warpgroup level matrix
 * instructions": the fragments of D and of A in registers for m64nNk16, the matrix descriptor, the canonical layouts
 * with 128-byte swizzle, and what has to be fenced and waited for.
 *
 * A product is made when it is waited for. Until then its sums hold a signaling NaN, which no arithmetic makes, so that
 * to read or write them is found; what it takes from registers and shared memory must be the same at its call and at
 * the wait. Of what is written to shared memory only cp_async's copies are known to want a fence of proxies. */
#include "t/lib/cudaemu/block.h"

#include <deque>

enum { N = 64, K = 16, SUMS = 32, POISON = 0x7fa5a5a5 };

/* One thread's sums of a product under way: where they are, and what they hold in truth. */
struct sums_away {
    float *at;
    float value[SUMS];
};

struct product {
    emu_wgmma what;
    int group;
    const char *file;
    int line;
    float *d[EMU_GROUP];
    const uint32_t *a[EMU_GROUP]; /* registers, or NULL */
    uint32_t a_was[EMU_GROUP][4];
    uint16_t a_tile_was[K][N], b_was[K][N]; /* a_tile: rows are a's columns */
};

struct warpgroup {
    std::vector<sums_away> away[EMU_GROUP];
    std::deque<product> products, finished; /* finished: since the last barrier */
    int n_groups;
    bool used;
};

static thread_local warpgroup all[EMU_MAX_THREADS / EMU_GROUP];

static warpgroup *group_of(const emu_thread *t)
{
    return &all[(t - emu_now.thread) / EMU_GROUP];
}

void emu_wgmma_begin()
{
    for (warpgroup &g : all)
        if (g.used) {
            g.products.clear();
            g.finished.clear();
            g.n_groups = 0;
            g.used = false;
            for (auto &thread : g.away)
                thread.clear();
        }
}

static sums_away *find_away(warpgroup *g, int thread, const void *at)
{
    for (sums_away &s : g->away[thread])
        if (s.at == at)
            return &s;
    return nullptr;
}

static int fence(emu_thread *first)
{
    for (int i = 0; i < EMU_GROUP; i++) {
        emu_thread *t = &first[i];
        t->has_fenced = true;
        for (int j = 0; j < t->wait->n_arrays; j++) {
            const emu_registers *r = &t->wait->arrays[j];
            if (find_away(group_of(t), i, r->word)) {
                emu_complain(t, "fences sums in %s:%d that a wgmma has", t->wait->file, t->wait->line);
                return -1;
            }
            for (size_t k = t->registers.size(); k-- > 0;)
                if (t->registers[k].word == r->word)
                    t->registers.erase(t->registers.begin() + (std::ptrdiff_t)k);
            t->registers.push_back({r->word, {r->word, r->word + r->n}});
        }
    }
    return 0;
}

/* Whether the n words are part of what was fenced, and have not changed. */
static bool is_fenced(const emu_thread *t, const uint32_t *word, size_t n)
{
    for (const emu_fenced &f : t->registers)
        if (word >= f.word && word + n <= f.word + f.was.size())
            return memcmp(word, &f.was[(size_t)(word - f.word)], 4 * n) == 0;
    return false;
}

/* Of the 16 x 64 matrix b, or a's transpose, that the descriptor tells, each element's bits: 0, or -1 with the error.
 * Rows (K) follow each other every 128 bytes, 8 of them every SBO, where it is transposed ("MN-major"); otherwise
 * columns do ("K-major"). A matrix 64 wide is one swizzle atom wide, so that LBO does not matter. Bits 4 to 6 of an
 * address are swizzled by bits 7 to 9. */
static int read_matrix(uint16_t (*to)[N], emu_thread *t, uint64_t descriptor, bool transposed)
{
    uint64_t known = 0x3fff | 0x3fffull << 16 | 0x3fffull << 32 | 3ull << 62;
    uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4, stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    if (descriptor & ~known || descriptor >> 62 != 1) {
        emu_complain(t, "gives the wgmma in %s:%d a descriptor 0x%016llx, which is not one of 128-byte swizzle",
                     t->wait->file, t->wait->line, (unsigned long long)descriptor);
        return -1;
    }
    for (uint32_t k = 0; k < K; k++)
        for (uint32_t n = 0; n < N; n++) {
            uint32_t row = transposed ? k : n, column = transposed ? n : k;
            uint32_t at = start + row / 8 * stride + row % 8 * 128 + column * 2;
            at ^= (at >> 7 & 7) << 4;
            const emu_array *in = nullptr;
            for (const emu_array &a : emu_now.arrays)
                if (at >= a.address && at - a.address + 2 <= a.n_bytes)
                    in = &a;
            if (!in) {
                emu_complain(t, "reads address 0x%x in the wgmma in %s:%d, where there is nothing", at, t->wait->file,
                             t->wait->line);
                return -1;
            }
            memcpy(&to[k][n], (const char *)in->bytes + (at - in->address), 2);
        }
    return 0;
}

/* What the product takes from shared memory. */
static int read_shared(uint16_t (*a)[N], uint16_t (*b)[N], emu_thread *t, const emu_wgmma *w)
{
    if (w->a_is_shared && read_matrix(a, t, w->a, false) < 0)
        return -1;
    return read_matrix(b, t, w->b, w->transposed);
}

static bool has_any(const std::vector<const void *> &copies, uint32_t from, uint32_t to)
{
    for (const void *p : copies)
        if (shared_address(p) >= from && shared_address(p) < to)
            return true;
    return false;
}

/* Whether there are copies into the matrix's rows that their threads have not fenced, or not met the others after. */
static int check_copies(emu_thread *t, uint64_t descriptor, bool transposed)
{
    uint32_t from = ((uint32_t)(descriptor & 0x3fff) << 4) / 128 * 128;
    uint32_t to = from + (transposed ? K : N) / 8 * ((uint32_t)(descriptor >> 32 & 0x3fff) << 4);
    for (unsigned i = 0; i < emu_now.n_threads; i++) {
        const emu_thread *other = &emu_now.thread[i];
        bool unfenced = has_any(other->unfenced, from, to);
        if (unfenced || has_any(other->unmet, from, to)) {
            emu_complain(t, "reads what thread (%u, %u, %u) copied in the wgmma in %s:%d, without a %s",
                         other->index.x, other->index.y, other->index.z, t->wait->file, t->wait->line,
                         unfenced ? "fence of proxies" : "barrier since");
            return -1;
        }
    }
    return 0;
}

static int check_thread(emu_thread *t, const emu_thread *first, const sums_away *away)
{
    const emu_wait *w = t->wait;
    if (!t->has_fenced) { /* registers of d, too, have an order then */
        emu_complain(t, "comes to the wgmma in %s:%d without a fence since it waited", w->file, w->line);
        return -1;
    }
    const char *what = w->a && !is_fenced(t, w->a, 4) ? "a"
                       : w->wgmma->add && !away && !is_fenced(t, (uint32_t *)w->d, SUMS) ? "d" : nullptr;
    if (w->wgmma->a != first->wait->wgmma->a || w->wgmma->b != first->wait->wgmma->b) {
        emu_complain(t, "gives the wgmma in %s:%d another descriptor than others of its warpgroup", w->file, w->line);
        return -1;
    }
    if (what) {
        emu_complain(t, "comes to the wgmma in %s:%d with %s not fenced since it was written", w->file, w->line, what);
        return -1;
    }
    return 0;
}

static int issue(emu_thread *first)
{
    warpgroup *g = group_of(first);
    product p = {};
    p.what = *first->wait->wgmma;
    p.group = g->n_groups;
    p.file = first->wait->file, p.line = first->wait->line;
    for (int i = 0; i < EMU_GROUP; i++) {
        emu_wait *w = first[i].wait;
        sums_away *away = find_away(g, i, w->d);
        if (check_thread(&first[i], first, away) < 0)
            return -1;
        p.d[i] = w->d, p.a[i] = w->a;
        if (w->a)
            memcpy(p.a_was[i], w->a, sizeof p.a_was[i]);
        if (!away) {
            g->away[i].push_back({w->d, {}});
            memcpy(g->away[i].back().value, w->d, sizeof g->away[i].back().value);
            for (int j = 0; j < SUMS; j++)
                w->d[j] = __uint_as_float(POISON);
        }
    }
    if (check_copies(first, p.what.b, p.what.transposed) < 0 ||
        (p.what.a_is_shared && check_copies(first, p.what.a, false) < 0) ||
        read_shared(p.a_tile_was, p.b_was, first, &p.what) < 0)
        return -1;
    g->products.push_back(p);
    return 0;
}

/* A row of a: of threads 4 i to 4 i + 3 the first, or that 8 below. */
static void take_a(float *a, const product *p, int i, int half)
{
    float (*load)(uint16_t) = p->what.f16 ? f16_load : bf16_load;
    int row = i / 8 * 16 + i % 8 + 8 * half;
    if (p->what.a_is_shared)
        for (int k = 0; k < K; k++)
            a[k] = load(p->a_tile_was[k][row]);
    else
        for (int t = 0; t < 4; t++)
            for (int r = 0; r < 2; r++)
                for (int h = 0; h < 2; h++)
                    a[8 * r + 2 * t + h] = load((uint16_t)(p->a_was[4 * i + t][2 * r + half] >> 16 * h));
}

/* Thread l of warp w: rows 16 w + l / 4 and that + 8. a: columns 2 (l % 4) and the next of those rows, then those 8 to
 * the right; sum 4 j + i: column 8 j + 2 (l % 4) + i % 2 of row i / 2. */
static void multiply(warpgroup *g, const product *p)
{
    float (*load)(uint16_t) = p->what.f16 ? f16_load : bf16_load, b[K][N];
    for (int k = 0; k < K; k++)
        for (int n = 0; n < N; n++)
            b[k][n] = load(p->b_was[k][n]);
    for (int i = 0; i < EMU_GROUP / 4; i++)
        for (int half = 0; half < 2; half++) {
            double row[N];
            float a[K];
            take_a(a, p, i, half);
            for (int t = 0; t < 4; t++) {
                const float *d = find_away(g, 4 * i + t, p->d[4 * i + t])->value;
                for (int j = 0; j < SUMS / 4; j++)
                    for (int h = 0; h < 2; h++)
                        row[8 * j + 2 * t + h] = p->what.add ? d[4 * j + 2 * half + h] : 0;
            }
            for (int k = 0; k < K; k++)
                for (int n = 0; n < N; n++)
                    row[n] += (double)a[k] * b[k][n];
            for (int t = 0; t < 4; t++) {
                float *d = find_away(g, 4 * i + t, p->d[4 * i + t])->value;
                for (int j = 0; j < SUMS / 4; j++)
                    for (int h = 0; h < 2; h++)
                        d[4 * j + 2 * half + h] = (float)row[8 * j + 2 * t + h];
            }
        }
}

/* What the product took from shared memory is still there. */
static bool is_unchanged(emu_thread *first, const product *p)
{
    uint16_t a[K][N], b[K][N];
    return read_shared(a, b, first, &p->what) == 0 && memcmp(b, p->b_was, sizeof b) == 0 &&
           (!p->what.a_is_shared || memcmp(a, p->a_tile_was, sizeof a) == 0);
}

/* What the product took is as it was at its call. */
static int check_unchanged(emu_thread *first, const product *p)
{
    for (int i = 0; i < EMU_GROUP; i++)
        if (p->a[i] && memcmp(p->a[i], p->a_was[i], sizeof p->a_was[i]) != 0) {
            emu_complain(&first[i], "changed the registers of the wgmma in %s:%d before it was waited for", p->file,
                         p->line);
            return -1;
        }
    if (!is_unchanged(first, p)) {
        emu_complain(first, "waits for the wgmma in %s:%d, whose shared memory has changed since", p->file, p->line);
        return -1;
    }
    return 0;
}

/* Sums that thread i's wait names come back. */
static int bring_back(emu_thread *t, warpgroup *g, int i)
{
    for (int j = 0; j < t->wait->n_arrays; j++) {
        const void *at = t->wait->arrays[j].word;
        sums_away *s = find_away(g, i, at);
        for (const product &p : g->products)
            if (p.d[i] == at) {
                emu_complain(t, "names sums in %s:%d that it does not wait for", t->wait->file, t->wait->line);
                return -1;
            }
        if (!s)
            continue;
        for (int k = 0; k < SUMS; k++)
            if (__float_as_uint(s->at[k]) != POISON) {
                emu_complain(t, "wrote sums before the wait in %s:%d", t->wait->file, t->wait->line);
                return -1;
            }
        memcpy(s->at, s->value, sizeof s->value);
        *s = g->away[i].back();
        g->away[i].pop_back();
    }
    return 0;
}

static int wait(emu_thread *first)
{
    warpgroup *g = group_of(first);
    while (!g->products.empty() && g->products.front().group < g->n_groups - first->wait->n) {
        if (check_unchanged(first, &g->products.front()) < 0)
            return -1;
        multiply(g, &g->products.front());
        g->finished.push_back(g->products.front());
        g->products.pop_front();
    }
    for (int i = 0; i < EMU_GROUP; i++) {
        first[i].has_fenced = false;
        if (bring_back(&first[i], g, i) < 0)
            return -1;
    }
    return 0;
}

int emu_wgmma_meet()
{
    for (warpgroup &g : all) {
        emu_thread *first = &emu_now.thread[(&g - all) * EMU_GROUP];
        for (const product &p : g.finished)
            if (!is_unchanged(first, &p)) {
                emu_complain(first, "or another changes shared memory that the wgmma in %s:%d has read, without a "
                             "barrier between", p.file, p.line);
                return -1;
            }
        g.finished.clear();
    }
    for (unsigned i = 0; i < emu_now.n_threads; i++)
        emu_now.thread[i].unmet.clear();
    return 0;
}

int emu_wgmma_end()
{
    for (const warpgroup &g : all)
        for (const product &p : g.products) {
            emu_complain(&emu_now.thread[(&g - all) * EMU_GROUP], "ends before the wgmma in %s:%d was waited for",
                         p.file, p.line);
            return -1;
        }
    return emu_wgmma_meet();
}

int emu_group_do(emu_thread *first)
{
    group_of(first)->used = true;
    switch (first->wait->op) {
    case EMU_WGMMA_FENCE:
        return fence(first);
    case EMU_WGMMA:
        return issue(first);
    case EMU_WGMMA_COMMIT:
        group_of(first)->n_groups++;
        return 0;
    default:
        return wait(first);
    }
}
