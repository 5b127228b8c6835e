#include "config.h"
#include "spank/affinity.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "topology/inventory.h"

int affinity_get(struct cpus *ret, ddp_error_t *errp)
{
    memset(ret, 0, sizeof *ret);
    if (sched_getaffinity(0, sizeof *ret, (cpu_set_t *)ret) < 0)
        return error_errno(errp, "cannot read the task's CPU mask");
    return 0;
}

int affinity_set(const struct cpus *want, struct cpus *ret, ddp_error_t *errp)
{
    (void)!sched_setaffinity(0, sizeof *want, (const cpu_set_t *)want); /* what came of it is read next */
    return affinity_get(ret, errp);
}

/* The CPUs of the core that `cpu` belongs to; at least itself. */
static struct cpus siblings(unsigned cpu)
{
    char path[96], text[256] = "";
    struct cpus set = {{0}};
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    io_close(fd);
    if (n > 0) {
        text[strcspn(text, "\n")] = 0;
        cpus_parse(text, &set, NULL);
    }
    cpus_add(&set, cpu);
    return set;
}

size_t affinity_count_cores(const struct cpus *set)
{
    size_t n = 0;
    struct cpus seen = {{0}};
    for (unsigned cpu = cpus_next(set, 0); cpu < CPUS_MAX; cpu = cpus_next(set, cpu + 1)) {
        if (cpus_has(&seen, cpu))
            continue;
        struct cpus core = siblings(cpu);
        cpus_or(&seen, &core);
        n++;
    }
    return n;
}

bool affinity_prefer_memory(int os_index)
{
    enum { BITS = INVENTORY_NUMAS_MAX * 4, WORD = sizeof(unsigned long) * CHAR_BIT };
    unsigned long nodes[BITS / WORD] = {0};
    int mode = MPOL_DEFAULT;
    if (os_index < 0 || os_index >= BITS)
        return false;
    if (syscall(SYS_get_mempolicy, &mode, NULL, 0ul, NULL, 0ul) < 0 || mode != MPOL_DEFAULT)
        return false;
    nodes[os_index / WORD] = 1ul << os_index % WORD;
    /* The kernel looks at one bit fewer than it is told. */
    return syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, (unsigned long)BITS + 1) == 0;
}
