/* The driver's files read like this (driver 535; the tabs' width varies):
 *
 *     /proc/driver/nvidia/gpus/0000:62:00.0/information
 *     Model: 		 NVIDIA H100 80GB HBM3
 *     IRQ:   		 10
 *     GPU UUID: 	 GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b
 *
 * Until the GPU has been initialised the digits of its UUID are question marks. */
#include <stdio.h>
#include <string.h>

#include "topology/inventory.h"

/* What follows "KEY:" and white space in the line, its end cut off; NULL: another line. */
static char *value_of(char *line, const char *key)
{
    size_t n = strlen(key);
    if (strncmp(line, key, n) != 0 || line[n] != ':')
        return NULL;
    char *value = line + n + 1;
    value += strspn(value, " \t");
    value[strcspn(value, "\n")] = 0;
    for (size_t len = strlen(value); len > 0 && strchr(" \t\r", value[len - 1]);)
        value[--len] = 0;
    return value;
}

static void copy_text(char *ret, size_t size, const char *text)
{
    if (*text && !strchr(text, '?') && strcmp(text, "Unknown") != 0)
        snprintf(ret, size, "%s", text);
}

static void read_gpu(struct inventory_gpu *gpu, FILE *f)
{
    char line[256];
    while (fgets(line, sizeof line, f)) {
        const char *value;
        if ((value = value_of(line, "Model")))
            copy_text(gpu->name, sizeof gpu->name, value);
        else if ((value = value_of(line, "GPU UUID")))
            copy_text(gpu->uuid, sizeof gpu->uuid, value);
    }
}

void inventory_read_driver(struct inventory *inv, const char *proc)
{
    for (size_t i = 0; i < inv->n_gpus; i++) {
        char path[512], bus[INVENTORY_BUS_TEXT];
        if (inv->gpu[i].vendor != VENDOR_NVIDIA)
            continue;
        snprintf(path, sizeof path, "%.400s/gpus/%s/information", proc, inventory_bus(&inv->gpu[i].pci, bus));
        FILE *f = fopen(path, "re");
        if (!f)
            continue;
        read_gpu(&inv->gpu[i], f);
        fclose(f);
    }
}
