/* Recorded machines: what inventory_load says of NAME.xml against NAME.inventory, and where placement_choose puts ranks
 * against NAME.golden. Both tables come from a second reading of the rule (t/data/README). One TAP line for each
 * machine's inventory and for each case; differences as "# " lines before it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/placement.h"

enum { LINE_MAX_BYTES = 4096, CASE_RANKS_MAX = 256 };

static const char *const machines[] = {"hgx-h100", "hgx-snc",  "dgx-a100", "dgx-2",    "gh200-x4", "gh200-nvl2",
                                       "mi250x",   "mi300x",   "power9",   "cloud-vm", "p5",       "bare-vm",
                                       "laptop",   "cpu-node", "old-node", "lopsided"};

static struct inventory inv;
static int n_tests, n_failed;
static bool is_same; /* so far, of what is being compared */

static void report(const char *machine, const char *what)
{
    n_failed += !is_same;
    printf("%sok %d - %s: %s\n", is_same ? "" : "not ", ++n_tests, machine, what);
    fflush(stdout);
}

static void differs(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void differs(const char *format, ...)
{
    va_list ap;
    is_same = false;
    va_start(ap, format);
    printf("# ");
    vprintf(format, ap);
    printf("\n");
    va_end(ap);
}

/* The file is part of this test: what cannot be read ends it. */
static void broken(const char *path, const char *line)
{
    printf("Bail out! %s: cannot read \"%s\"\n", path, line);
    exit(99);
}

/* ---- one line's fields ---- */

static int number(const char *text)
{
    return strcmp(text, "-") ? atoi(text) : -1;
}

static void same_number(const char *line, const char *field, const char *want, int got)
{
    if (number(want) != got)
        differs("%s: %s is %d", line, field, got);
}

static void same_text(const char *line, const char *field, const char *want, const char *got)
{
    if (strcmp(strcmp(want, "-") ? want : "", got))
        differs("%s: %s is \"%s\"", line, field, got);
}

static void same_cpus(const char *line, const char *field, const char *want, const struct cpus *got)
{
    struct cpus set;
    ddp_error_t e;
    char text[LINE_MAX_BYTES];

    if (cpus_parse(want, &set, &e))
        differs("%s: %s", line, e.text);
    else if (!cpus_equal(&set, got))
        differs("%s: %s: %s", line, field, cpus_format(got, text, sizeof text));
}

/* Cuts the line at spaces. Returns the number of words. */
static int words(char *line, char **word, int max)
{
    int n = 0;

    for (char *w = strtok(line, " \n"); w && n < max; w = strtok(NULL, " \n"))
        word[n++] = w;
    return n;
}

/* ---- inventory ---- */

static struct cpus home_of(const struct inventory_gpu *g)
{
    struct cpus none = {{0}};

    return cpus_equal(&g->pci.local, &inv.all) ? none : g->pci.local;
}

static void check_gpu(const char *line, char **w, size_t i)
{
    static const char *const vendors[] = {[VENDOR_NVIDIA] = "NVIDIA", [VENDOR_AMD] = "AMD"};
    const struct inventory_gpu *g = &inv.gpu[i];
    struct cpus local = home_of(g), cores = {{0}};
    char text[INVENTORY_BUS_TEXT];

    for (size_t c = 0; c < inv.n_cores; c++) {
        struct cpus of_core = inventory_core_cpus(&inv, c);
        cpus_and(&of_core, &local);
        if (cpus_count(&of_core))
            cpus_add(&cores, (unsigned)c);
    }
    same_text(line, "address", w[2], inventory_bus(&g->pci, text));
    same_text(line, "vendor", w[3], vendors[g->vendor]);
    snprintf(text, sizeof text, "%04x", g->pci.device_id);
    same_text(line, "device id", w[4], text);
    same_number(line, "package", w[5], g->pci.package);
    same_number(line, "NUMA node", w[6], g->pci.numa);
    same_cpus(line, "home (cores)", strcmp(w[7], "-") ? w[7] : "none", &cores);
    same_cpus(line, "local CPUs", w[8], &g->pci.local);
}

static void check_nic(const char *line, char **w, size_t i)
{
    const struct inventory_nic *n = &inv.nic[i];
    char text[INVENTORY_BUS_TEXT];

    same_text(line, "address", w[2], inventory_bus(&n->pci, text));
    same_text(line, "kind", w[3], inventory_nic_kind_name(n->kind));
    same_text(line, "link", w[4], n->is_active ? "up" : "down");
    same_text(line, "verbs name", w[5], n->verbs);
    same_text(line, "interface", w[6], n->interface);
    same_number(line, "package", w[7], n->pci.package);
    same_number(line, "NUMA node", w[8], n->pci.numa);
    same_cpus(line, "local CPUs", w[9], &n->pci.local);
}

static void check_core(const char *line, char **w, size_t i)
{
    struct cpus set = inventory_core_cpus(&inv, i);

    same_number(line, "package", w[2], inv.core[i].package);
    same_number(line, "NUMA node", w[3], inv.core[i].numa);
    if (strcmp(w[4], "-"))
        same_number(line, "cache", w[4], inv.core[i].cache);
    same_cpus(line, "CPUs", w[5], &set);
}

static void check_numa(const char *line, char **w, size_t i)
{
    struct cpus set = inventory_numa_cpus(&inv, i);

    same_number(line, "OS number", w[2], inv.numa[i].os_index);
    same_number(line, "package", w[3], inv.numa[i].package);
    same_number(line, "GiB", w[4], (int)(inv.numa[i].memory_bytes >> 30));
    same_cpus(line, "CPUs", w[5], &set);
}

/* far GPU LETTERS LETTERS: to each GPU and to each NIC */
static void check_far(const char *line, char **w, size_t i)
{
    char got[INVENTORY_GPUS_MAX + INVENTORY_NICS_MAX] = "";

    for (size_t j = 0; j < inv.n_gpus; j++)
        got[j] = j == i ? '.' : "srpx"[inventory_distance(&inv.gpu[i].pci, &inv.gpu[j].pci)];
    got[inv.n_gpus] = 0;
    same_text(line, "to the GPUs", w[2], got);
    for (size_t j = 0; j < inv.n_nics; j++)
        got[j] = "srpx"[inventory_distance(&inv.gpu[i].pci, &inv.nic[j].pci)];
    got[inv.n_nics] = 0;
    same_text(line, "to the NICs", w[3], got);
}

static void check_links(const char *line, char **w, size_t i)
{
    for (size_t j = 0; j < inv.n_gpus; j++)
        if (j != i)
            same_number(line, "a link", w[2 + j], (int)inv.link_mbps[i][j]);
}

/* Lines of the form "KIND PLACE ..." */
static const struct table {
    const char *kind;
    int n_words; /* 0: as many as GPUs, and two */
    const size_t *n;
    void (*check)(const char *line, char **word, size_t place);
} tables[] = {{"numa", 6, &inv.n_numas, check_numa},  {"core", 6, &inv.n_cores, check_core},
              {"gpu", 9, &inv.n_gpus, check_gpu},     {"nic", 10, &inv.n_nics, check_nic},
              {"far", 4, &inv.n_gpus, check_far},     {"links", 0, &inv.n_gpus, check_links}};
enum { N_TABLES = sizeof tables / sizeof *tables };

static bool check_table_line(const char *line, char **w, int n, size_t *seen)
{
    for (int t = 0; t < N_TABLES; t++) {
        int want = tables[t].n_words ? tables[t].n_words : (int)inv.n_gpus + 2;
        if (strcmp(w[0], tables[t].kind))
            continue;
        size_t place = seen[t]++;
        if (place >= *tables[t].n)
            differs("%s: is not there", line);
        else if (n != want && is_same)
            return false;
        else if (n == want)
            tables[t].check(line, w, place);
        return true;
    }
    return false;
}

static bool check_inventory_line(const char *line, char **w, int n, size_t *seen)
{
    if (n == 2 && !strcmp(w[0], "packages"))
        same_number(line, "number", w[1], (int)inv.n_packages);
    else if (n == 2 && !strcmp(w[0], "all"))
        same_cpus(line, "all CPUs", w[1], &inv.all);
    else if (n == 2 && !strcmp(w[0], "allowed"))
        same_cpus(line, "allowed CPUs", w[1], &inv.allowed);
    else
        return check_table_line(line, w, n, seen);
    return true;
}

static FILE *open_table(const char *machine, const char *ending, char *path, size_t size)
{
    const char *top = getenv("top_srcdir");
    FILE *f;

    snprintf(path, size, "%s/t/data/topology/%s.%s", top ? top : ".", machine, ending);
    f = fopen(path, "r");
    if (!f)
        broken(path, "it");
    return f;
}

static void check_inventory(const char *machine)
{
    char path[1024], line[LINE_MAX_BYTES], copy[LINE_MAX_BYTES], *w[INVENTORY_GPUS_MAX + 2];
    size_t seen[N_TABLES] = {0};
    FILE *f = open_table(machine, "inventory", path, sizeof path);

    is_same = true;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        strcpy(copy, line);
        int n = words(copy, w, INVENTORY_GPUS_MAX + 2);
        if (n && *w[0] != '#' && !check_inventory_line(line, w, n, seen))
            broken(path, line);
    }
    for (int t = 0; t < 4; t++)
        if (seen[t] < *tables[t].n)
            differs("%zu of kind %s more than expected", *tables[t].n - seen[t], tables[t].kind);
    fclose(f);
    report(machine, "inventory");
}

/* ---- placement ---- */

static struct placement_rank ranks[CASE_RANKS_MAX];
static struct place got[CASE_RANKS_MAX];
static struct placement_request request;
static char case_name[LINE_MAX_BYTES], keep[LINE_MAX_BYTES];

static bool set_mask(int first, int end, const char *list)
{
    struct cpus set;
    ddp_error_t e;

    if (first < 0 || end > request.n_ranks || cpus_parse(list, &set, &e))
        return false;
    for (int r = first; r < end; r++)
        ranks[r].mask = set;
    return true;
}

static bool set_gpus(int first, int end, char **w, int n)
{
    if (first < 0 || end > request.n_ranks || n > INVENTORY_GPUS_MAX)
        return false;
    if (n == 1 && !strcmp(*w, "none"))
        n = 0;
    for (int r = first; r < end; r++) {
        ranks[r].n_devices = (int16_t)n;
        for (int i = 0; i < n; i++)
            ranks[r].device[i] = (int16_t)number(w[i]);
    }
    return true;
}

/* place RANK DEVICE GPU NUMA NIC DISTANCE CPUS */
static bool check_place(const char *line, char **w, int n)
{
    static const char *const distances[] = {"same-switch", "same-root", "same-package", "across"};
    int r = n == 8 ? atoi(w[1]) : -1;
    char gpu[INVENTORY_BUS_TEXT] = "", nic[INVENTORY_BUS_TEXT] = "";

    if (r < 0 || r >= request.n_ranks)
        return false;
    const struct place *p = &got[r];
    if (p->gpu >= 0)
        inventory_bus(&inv.gpu[p->gpu].pci, gpu);
    if (p->nic >= 0)
        inventory_bus(&inv.nic[p->nic].pci, nic);
    same_number(line, "device", w[2], p->device);
    same_text(line, "GPU", w[3], gpu);
    same_number(line, "NUMA node", w[4], p->numa);
    same_text(line, "NIC", w[5], nic);
    if (p->nic >= 0)
        same_text(line, "distance", w[6], distances[p->nic_distance]);
    same_cpus(line, "CPUs", w[7], &p->cpus);
    return true;
}

static void start_case(const char *name)
{
    memset(ranks, 0, sizeof ranks);
    memset(got, 0, sizeof got);
    request = (struct placement_request){.inventory = &inv, .rank = ranks};
    strcpy(case_name, name); /* of a line, which is no longer than it */
    is_same = true;
}

/* What the ranks are given. 1: done, 0: not such a line, -1: broken */
static int read_given(const char *line, char **w, int n)
{
    if (n == 2 && !strcmp(w[0], "ranks")) {
        request.n_ranks = atoi(w[1]);
        return request.n_ranks > 0 && request.n_ranks <= CASE_RANKS_MAX ? 1 : -1;
    }
    if (n == 2 && !strcmp(w[0], "cpus"))
        return set_mask(0, request.n_ranks, w[1]) ? 1 : -1;
    if (n == 3 && !strcmp(w[0], "mask"))
        return set_mask(atoi(w[1]), atoi(w[1]) + 1, w[2]) ? 1 : -1;
    if (n > 1 && !strcmp(w[0], "gpus"))
        return set_gpus(0, request.n_ranks, w + 1, n - 1) ? 1 : -1;
    if (n > 2 && !strcmp(w[0], "see"))
        return set_gpus(atoi(w[1]), atoi(w[1]) + 1, w + 2, n - 2) ? 1 : -1;
    if (n > 1 && !strcmp(w[0], "keep")) {
        strcpy(keep, line + strlen("keep "));
        request.keep = keep;
        return 1;
    }
    return 0;
}

static void check_golden(const char *machine)
{
    char path[1024], line[LINE_MAX_BYTES], copy[LINE_MAX_BYTES], *w[INVENTORY_GPUS_MAX + 3];
    FILE *f = open_table(machine, "golden", path, sizeof path);
    int n_places = 0; /* of this case */
    ddp_error_t e;

    request.n_ranks = 0;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        strcpy(copy, line);
        int n = words(copy, w, INVENTORY_GPUS_MAX + 3);
        if (!n || *w[0] == '#')
            continue;
        if (n > 1 && !strcmp(w[0], "case")) {
            if (n_places != request.n_ranks)
                broken(path, case_name);
            start_case(line + strlen("case "));
            n_places = 0;
            continue;
        }
        int given = read_given(line, w, n);
        if (given < 0 || (!given && strcmp(w[0], "place")))
            broken(path, line);
        if (given)
            continue;
        if (n_places == 0 && placement_choose(&request, got, &e))
            differs("%s", e.text);
        if (!check_place(line, w, n))
            broken(path, line);
        if (++n_places == request.n_ranks)
            report(machine, case_name);
    }
    if (n_places != request.n_ranks)
        broken(path, case_name);
    fclose(f);
}

/* A step without GPUs reads no devices: cores and memory are the same. */
static void check_without_devices(const char *machine, const char *path)
{
    static struct inventory less;
    ddp_error_t e;
    is_same = true;
    if (inventory_load(path, false, &less, &e) < 0)
        differs("%s", e.text);
    else if (less.n_gpus || less.n_nics || less.n_cores != inv.n_cores || less.n_numas != inv.n_numas ||
             memcmp(less.core, inv.core, sizeof inv.core) != 0 || memcmp(less.numa, inv.numa, sizeof inv.numa) != 0)
        differs("%zu cores, %zu NUMA nodes; with devices %zu, %zu", less.n_cores, less.n_numas, inv.n_cores,
                inv.n_numas);
    report(machine, "without devices");
}

int main(void)
{
    char path[1024];
    const char *top = getenv("top_srcdir");
    ddp_error_t e;

    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        snprintf(path, sizeof path, "%s/t/data/topology/%s.xml", top ? top : ".", machines[i]);
        is_same = !inventory_load(path, true, &inv, &e);
        if (!is_same) {
            differs("%s", e.text);
            report(machines[i], "loads");
            continue;
        }
        check_inventory(machines[i]);
        check_without_devices(machines[i], path);
        check_golden(machines[i]);
    }
    printf("1..%d\n", n_tests);
    return n_failed != 0;
}
