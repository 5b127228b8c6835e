/* facts.c - what a rank finds out about itself, its node and the node's GPUs, from files. */
#include <config.h> /* dlinfo */

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/base/cgroup.h"
#include "runtime/base/hash.h"
#include "runtime/base/io.h"
#include "runtime/base/meminfo.h"
#include "runtime/base/plain.h"
#include "runtime/cli/check/check.h"

#define PROGRAM_MAX (256u << 20)

/* Of a file's bytes; 0: it cannot be read. */
static uint64_t hash_file(const char *path)
{
    size_t n;
    char *text = io_read_file(path, PROGRAM_MAX, &n, NULL);
    uint64_t h = HASH_START;
    for (size_t i = 0; text && i < n; i++)
        h = hash_step(h, (unsigned char)text[i]);
    free(text);
    return text ? h : 0;
}

/* This program has libddp in it; others load this. It is opened to see which file that is, and closed again. */
static void look_at_library(struct check_facts *f)
{
    struct link_map *map;
    void *lib = dlopen("libddp.so.0", RTLD_LAZY | RTLD_LOCAL);
    if (!lib)
        return;
    if (dlinfo(lib, RTLD_DI_LINKMAP, &map) == 0) {
        snprintf(f->library, sizeof f->library, "%s", map->l_name);
        f->library_hash = hash_file(map->l_name);
    }
    dlclose(lib);
}

/* A small file's first line, or "". */
static const char *read_line(const char *path, char *ret, size_t size)
{
    size_t n;
    FILE *f = fopen(path, "re");
    ret[0] = 0;
    if (f && fgets(ret, (int)size, f)) {
        n = strcspn(ret, "\n");
        ret[n] = 0;
    }
    if (f)
        fclose(f);
    return ret;
}

/* A count in a file of lines "NAME NUMBER", as the kernel's aer_dev_* are; 0 where there is none. */
static unsigned long read_count(const char *path, const char *name)
{
    char line[128];
    unsigned long count = 0;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (begins(line, name) && line[strlen(name)] == ' ')
            count = strtoul(line + strlen(name), NULL, 10);
    if (f)
        fclose(f);
    return count;
}

/* PCI width (speed alone says nothing: an idle GPU lowers it) and errors that the kernel has counted. */
static void look_at_gpu(const struct inventory_gpu *g, const char *sys, char *ret, size_t size)
{
    static const struct {
        const char *file, *total, *name;
    } counts[] = {{"aer_dev_fatal", "TOTAL_ERR_FATAL", "fatal"},
                  {"aer_dev_nonfatal", "TOTAL_ERR_NONFATAL", "uncorrected"}};
    char bus[INVENTORY_BUS_TEXT], path[512], now[32], most[32];
    inventory_bus(&g->pci, bus);
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/current_link_width", sys, bus);
    int width = atoi(read_line(path, now, sizeof now));
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/max_link_width", sys, bus);
    int all = atoi(read_line(path, most, sizeof most));
    if (width > 0 && width < all && all < 255)
        snprintf(ret, size, "GPU %s has %d of %d PCI lanes", bus, width, all);
    for (size_t i = 0; !ret[0] && i < sizeof counts / sizeof *counts; i++) {
        snprintf(path, sizeof path, "%s/bus/pci/devices/%s/%s", sys, bus, counts[i].file);
        unsigned long n = read_count(path, counts[i].total);
        if (n > 0)
            snprintf(ret, size, "GPU %s: the kernel has counted %lu %s PCI errors", bus, n, counts[i].name);
    }
}

void check_gpu_faults(const struct inventory *inv, const char *sys, char *ret, size_t size)
{
    ret[0] = 0;
    for (size_t i = 0; !ret[0] && i < inv->n_gpus; i++)
        look_at_gpu(&inv->gpu[i], sys, ret, size);
}

static void look_at_machine(struct check_facts *f)
{
    struct inventory *inv = calloc(1, sizeof *inv);
    if (inv && inventory_load(NULL, true, inv, NULL) == 0) {
        f->n_gpus = (int32_t)inv->n_gpus;
        f->all_numas = (int32_t)inv->n_numas;
        for (size_t i = 0; i < inv->n_numas; i++) {
            struct cpus cpus = inventory_numa_cpus(inv, i);
            f->n_numas += cpus_touch(&cpus, &f->mask);
        }
        check_gpu_faults(inv, "/sys", f->gpu_fault, sizeof f->gpu_fault);
    }
    free(inv);
}

void check_look(struct check_facts *ret)
{
    const char *node = getenv("SLURMD_NODENAME"), *plugin = getenv("DDP_VERSION");
    uint64_t machine = meminfo_available(""), group = cgroup_memory_left("");
    struct utsname u;
    *ret = (struct check_facts){.is_step = getenv("SLURM_STEP_ID") && !getenv("DDP_BOOT_ADDR")};
    if (node && *node)
        snprintf(ret->host, sizeof ret->host, "%s", node);
    else if (gethostname(ret->host, sizeof ret->host - 1) < 0)
        strcpy(ret->host, "?");
    plain_line(ret->host);
    if (uname(&u) == 0)
        snprintf(ret->kernel, sizeof ret->kernel, "%s", u.release);
    snprintf(ret->plugin, sizeof ret->plugin, "%s", plugin ? plugin : "");
    sched_getaffinity(0, sizeof ret->mask, (cpu_set_t *)&ret->mask);
    ret->left_bytes = machine < group ? machine : group;
    ret->limit_bytes = cgroup_memory_limit("");
    read_line("/sys/module/nvidia/version", ret->driver, sizeof ret->driver);
    ret->program_hash = hash_file("/proc/self/exe");
    look_at_library(ret);
    look_at_machine(ret);
}
