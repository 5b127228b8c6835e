#include "runtime/machine.h"

#include <stdio.h>
#include <string.h>

void machine_cpu(char *ret, size_t size)
{
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "re");
    *ret = 0;
    while (f && !*ret && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (colon && !strncmp(line, "model name", 10))
            snprintf(ret, size, "%.*s", (int)strcspn(colon + 1 + strspn(colon + 1, " "), "\n"),
                     colon + 1 + strspn(colon + 1, " "));
    }
    if (f)
        fclose(f);
}

const char *machine_kernels(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return "AVX-512";
    if (__builtin_cpu_supports("avx2"))
        return "AVX2";
#endif
    return "baseline";
}
