/* Fuzz target: the lists that Slurm and users hand us. The first byte says which: c CPUs, d devices, h hosts, t tasks
 * per node. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/step/hostlist.h"
#include "spank/step/step.h"
#include "t/fuzz/fuzz.h"
#include "topology/cpus.h"
#include "topology/devices.h"

static void try_cpus(const char *text)
{
    static char printed[CPUS_MAX * 6];
    struct cpus set, back;
    ddp_error_t e = {0};
    if (cpus_parse(text, &set, &e) < 0) {
        PROMISE(e.text[0] && e.domain == DDP_E_USAGE);
        return;
    }
    PROMISE(cpus_parse(cpus_format(&set, printed, sizeof printed), &back, &e) == 0);
    PROMISE(cpus_equal(&set, &back));
    char brief[16];
    PROMISE(strlen(cpus_format(&set, brief, sizeof brief)) < sizeof brief);
}

/* "VISIBLE;STEP": without the ; only one is there. */
static void try_devices(char *text)
{
    static struct inventory inv;
    struct devices d = {.n = -7};
    ddp_error_t e = {0};
    inv.n_gpus = 4;
    for (int i = 0; i < 4; i++) {
        inv.gpu[i].pci.bus = (uint8_t)(0x10 + i);
        snprintf(inv.gpu[i].uuid, sizeof inv.gpu[i].uuid, "GPU-%d-abc", i);
    }
    char *step = strchr(text, ';');
    if (step)
        *step++ = 0;
    if (devices_list(&inv, &(struct devices_facts){text, NULL, step}, &d, &e) < 0) {
        PROMISE(e.text[0] && e.domain == DDP_E_DATA && d.n == -7);
        return;
    }
    PROMISE(d.n >= 0 && d.n <= INVENTORY_GPUS_MAX);
    for (int i = 0; i < d.n; i++)
        PROMISE(d.gpu[i] >= -1 && d.gpu[i] < (int)inv.n_gpus);
}

static int count_host(const char *host, void *arg)
{
    size_t *n = arg;
    PROMISE(strlen(host) <= HOSTLIST_NAME_MAX);
    return ++*n == 3000; /* the rest is alike */
}

static void try_hosts(const char *text)
{
    size_t n, seen = 0;
    char host[HOSTLIST_NAME_MAX + 1];
    ddp_error_t e = {0};
    if (hostlist_count(text, &n, &e) < 0) {
        PROMISE(e.text[0] && hostlist_nth(text, 0, host, NULL) < 0);
        return;
    }
    PROMISE(n > 0 && n <= HOSTLIST_HOSTS_MAX);
    hostlist_each(text, count_host, &seen, &e);
    PROMISE(seen == (n < 3000 ? n : 3000));
    PROMISE(hostlist_nth(text, 0, host, &e) == 0 && hostlist_nth(text, n - 1, host, &e) == 0);
    PROMISE(strlen(host) <= HOSTLIST_NAME_MAX && hostlist_nth(text, n, host, &e) < 0);
}

static void try_tasks(const char *text)
{
    static const int index[] = {0, 1, 1000, 1 << 30};
    for (size_t i = 0; i < sizeof index / sizeof *index; i++) {
        int tasks = -7;
        ddp_error_t e = {0};
        if (step_tasks_on(text, index[i], &tasks, &e) < 0)
            PROMISE(e.text[0] && tasks == -7);
        else
            PROMISE(tasks >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0)
        return 0;
    char *text = malloc(n);
    if (!text)
        return 0;
    memcpy(text, data + 1, n - 1);
    text[n - 1] = 0;
    switch (data[0]) {
    case 'c': try_cpus(text); break;
    case 'd': try_devices(text); break;
    case 'h': try_hosts(text); break;
    case 't': try_tasks(text); break;
    }
    free(text);
    return 0;
}
