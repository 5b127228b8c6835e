/* Fuzz target: records of machines, through inventory_load and so through hwloc in a child process. */
#include "config.h" /* memfd_create */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "t/fuzz/fuzz.h"
#include "topology/load_impl.h"
#include "topology/placement.h"

static struct inventory inv;

/* Everything that is asked of tables, on these. */
static void use(void)
{
    char text[64];
    PROMISE(inventory_is_sound(&inv));
    for (size_t i = 0; i < inv.n_cores; i++) {
        struct cpus set = inventory_core_cpus(&inv, i);
        PROMISE(cpus_count(&set) == inv.core[i].n_cpus && inventory_count_cores(&inv, &set) == 1);
    }
    for (size_t i = 0; i < inv.n_numas; i++) {
        struct cpus set = inventory_numa_cpus(&inv, i);
        PROMISE(cpus_count(&set) > 0 && cpus_format(&set, text, sizeof text));
    }
    for (size_t i = 0; i < inv.n_gpus; i++) {
        int found = inventory_find_gpu(&inv, inventory_bus(&inv.gpu[i].pci, text));
        PROMISE(found >= 0 && found <= (int)i);
        inventory_find_gpu(&inv, inv.gpu[i].uuid);
        for (size_t k = 0; k < inv.n_nics; k++)
            PROMISE((unsigned)inventory_distance(&inv.gpu[i].pci, &inv.nic[k].pci) <= DISTANCE_ACROSS);
    }
}

/* Three ranks on all of it, each with every GPU. */
static void place(void)
{
    static struct placement_rank rank[3];
    static struct place ret[3];
    struct placement_request req = {.inventory = &inv, .n_ranks = 3, .rank = rank};
    for (int i = 0; i < 3; i++) {
        rank[i] = (struct placement_rank){.mask = inv.all, .n_devices = (int16_t)inv.n_gpus};
        for (int k = 0; k < rank[i].n_devices; k++)
            rank[i].device[k] = (int16_t)k;
    }
    PROMISE(placement_choose(&req, ret, NULL) == 0);
    for (int i = 0; i < 3; i++)
        PROMISE(ret[i].n_cores > 0 && cpus_within(&ret[i].cpus, &inv.all) && placement_why(&req, &ret[i]));
}

/* ---- what the child saw counts too ---- */

#ifdef FUZZ_COVERAGE
/* --wrap: clang's counters are announced to libFuzzer, and the child ends, by way of these. */
void __real___sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop);
void __wrap___sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop);
extern void __real__exit(int code) __attribute__((noreturn));
void __wrap__exit(int code) __attribute__((noreturn));
static uint8_t *counters, *of_child;
static size_t n_counters;

void __wrap___sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop)
{
    counters = start;
    n_counters = (size_t)(stop - start);
    __real___sanitizer_cov_8bit_counters_init(start, stop);
}

void __wrap__exit(int code)
{
    if (of_child)
        memcpy(of_child, counters, n_counters);
    __real__exit(code);
}

static void before(void)
{
    if (!of_child)
        of_child = mmap(NULL, n_counters, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(of_child, 0, n_counters);
}

static void after(void)
{
    for (size_t i = 0; i < n_counters; i++)
        if (of_child[i] > counters[i])
            counters[i] = of_child[i];
}

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=256";
}
#else
static void before(void) {}
static void after(void) {}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[32];
    int fd = memfd_create("record", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ddp_error_t e = {0};
    before();
    if (inventory_load(path, true, &inv, &e) == 0) {
        use();
        place();
    } else {
        PROMISE(e.text[0] && (e.domain == DDP_E_DATA || e.domain == DDP_E_TIMEOUT));
    }
    after();
    close(fd);
    return 0;
}

#ifdef FUZZ_COVERAGE
/* ---- mutations that stay well formed: what lies between two quotes, and whole lines ---- */

static unsigned next(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 8;
}

/* The k-th piece between quotes; false: there is none. */
static int find_value(const uint8_t *data, size_t n, unsigned k, size_t *start, size_t *len)
{
    size_t quote[2] = {0};
    unsigned quotes = 0, n_values = 0;
    for (int pass = 0; pass < 2; pass++) {
        unsigned seen = 0;
        for (size_t i = quotes = 0; i < n; i++) {
            if (data[i] != '"')
                continue;
            quote[quotes++ % 2] = i;
            if (quotes % 2 == 0 && pass == 1 && seen++ == k % n_values) {
                *start = quote[0] + 1;
                *len = quote[1] - *start;
                return 1;
            }
        }
        n_values = quotes / 2;
        if (n_values == 0)
            return 0;
    }
    return 0;
}

static size_t replace(uint8_t *data, size_t n, size_t max, size_t start, size_t len, const uint8_t *by, size_t by_len)
{
    if (n - len + by_len > max)
        return n;
    memmove(data + start + by_len, data + start + len, n - start - len);
    memcpy(data + start, by, by_len);
    return n - len + by_len;
}

static size_t mutate_value(uint8_t *data, size_t n, size_t max, unsigned *state)
{
    static const char *const known[] = {
        "0", "-1", "1", "4294967295", "18446744073709551615", "0x0", "0x00000001", "0xf...f", "0xffffffff", "Machine",
        "Package", "Core", "PU", "NUMANode", "L3Cache", "L2Cache", "Group", "Bridge", "PCIDev", "OSDev", "Misc",
        "MemCache", "Die", "0302 [10de:2330] [0000:0000] 00", "0000:12:00.0", "0-1", "1-1", "0000:[00-ff]"};
    uint8_t by[256];
    size_t start, len, from, by_len;
    if (!find_value(data, n, next(state), &start, &len))
        return n;
    unsigned how = next(state) % 3;
    if (how == 0) {
        const char *text = known[next(state) % (sizeof known / sizeof *known)];
        by_len = strlen(text);
        memcpy(by, text, by_len);
    } else if (how == 1 && find_value(data, n, next(state), &from, &by_len) && by_len <= sizeof by) {
        memcpy(by, data + from, by_len);
    } else {
        by_len = len < sizeof by / 2 ? len : sizeof by / 2;
        memcpy(by, data + start, by_len);
        by_len = LLVMFuzzerMutate(by, by_len, sizeof by);
        for (size_t i = 0; i < by_len; i++)
            if (by[i] < ' ' || by[i] > '~' || strchr("\"<&", by[i]))
                by[i] = (uint8_t)('0' + by[i] % 10);
    }
    return replace(data, n, max, start, len, by, by_len);
}

/* A line is dropped or comes twice. */
static size_t mutate_line(uint8_t *data, size_t n, size_t max, unsigned *state)
{
    uint8_t line[1024];
    size_t at = n ? next(state) % n : 0, start = at, end = at;
    while (start > 0 && data[start - 1] != '\n')
        start--;
    while (end < n && data[end] != '\n')
        end++;
    end += end < n;
    if (end - start > sizeof line)
        return n;
    memcpy(line, data + start, end - start);
    return next(state) % 2 ? replace(data, n, max, start, end - start, line, 0)
                           : replace(data, n, max, end, 0, line, end - start);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    unsigned state = seed, how = next(&state) % 8;
    if (how == 0)
        return LLVMFuzzerMutate(data, n, max);
    if (how == 1)
        return mutate_line(data, n, max, &state);
    for (unsigned times = 1 + next(&state) % 3; times > 0; times--)
        n = mutate_value(data, n, max, &state);
    return n;
}
#endif
