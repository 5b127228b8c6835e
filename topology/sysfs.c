#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "topology/load_impl.h"

bool sysfs_is_up(const char *sys, const char *interface)
{
    char path[512], state[32] = "";
    snprintf(path, sizeof path, "%.400s/class/net/%s/operstate", sys, interface);
    FILE *f = fopen(path, "re");
    if (!f)
        return true;
    if (!fgets(state, sizeof state, f))
        state[0] = 0;
    fclose(f);
    state[strcspn(state, "\n")] = 0;
    /* Some drivers only ever say "unknown" (Linux, Documentation/networking/operstates.rst). */
    return strcmp(state, "down") != 0 && strcmp(state, "lowerlayerdown") != 0 && strcmp(state, "notpresent") != 0;
}

bool sysfs_is_virtual(const char *sys, const struct inventory_pci *pci)
{
    char path[512], bus[INVENTORY_BUS_TEXT];
    snprintf(path, sizeof path, "%.400s/bus/pci/devices/%s/physfn", sys, inventory_bus(pci, bus));
    return access(path, F_OK) == 0;
}
