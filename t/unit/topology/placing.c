#include "t/unit/unit.h"

#include "t/unit/topology/placing.h"

struct placement_rank ranks[PLACING_RANKS];
struct place places[PLACING_RANKS];
struct placement_request req;

void given(const struct inventory *inv, int n, const char *mask)
{
    memset(ranks, 0, sizeof ranks);
    for (int r = 0; r < n; r++)
        ranks[r].mask = machine_cpus(inv, mask);
    req = (struct placement_request){inv, n, ranks, NULL};
}

void given_mask(int rank, const char *mask)
{
    ranks[rank].mask = machine_cpus(req.inventory, mask);
}

void given_devices(int rank, const char *devices)
{
    ranks[rank].n_devices = 0;
    for (; *devices; devices += strspn(devices, " ")) {
        char *end = (char *)devices + 1;
        ranks[rank].device[ranks[rank].n_devices++] = (int16_t)(*devices == 'x' ? -1 : strtol(devices, &end, 10));
        devices = end;
    }
}

void all_see(const char *devices)
{
    for (int r = 0; r < req.n_ranks; r++)
        given_devices(r, devices);
}

void place(void)
{
    ddp_error_t e = {0};
    memset(places, 0x5a, sizeof places);
    if (placement_choose(&req, places, &e) < 0)
        fail_msg("%s", e.text);
}

void expect_cpus(const char *want)
{
    char text[2048] = "", one[256];
    place();
    for (int r = 0; r < req.n_ranks; r++) {
        strcat(text, r ? " " : "");
        strcat(text, cpus_format(&places[r].cpus, one, sizeof one));
    }
    assert_string_equal(text, want);
}

static int field(const struct place *p, enum field which)
{
    const int value[] = {p->device,    p->gpu,           p->numa,       p->nic, p->n_cores, p->n_near,
                         p->n_sharing, p->n_gpu_sharing, (int)p->reason};
    return value[which];
}

void expect(enum field which, const char *want)
{
    char text[1024] = "";
    place();
    for (int r = 0; r < req.n_ranks; r++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", r ? " " : "", field(&places[r], which));
    assert_string_equal(text, want);
}

struct inventory *two_gpus(void)
{
    struct inventory *inv = machine_make(2, 1, 1, 4, 1, MACHINE_THREADS_LAST);
    machine_add_gpu(inv, "0-3", 0, 10);
    machine_add_gpu(inv, "4-7", 1, 11);
    return inv;
}

struct inventory *four_gpus(void)
{
    struct inventory *inv = machine_make(2, 2, 1, 4, 1, MACHINE_THREADS_LAST);
    machine_add_gpu(inv, "0-3", 0, 10);
    machine_add_gpu(inv, "4-7", 1, 11);
    machine_add_gpu(inv, "8-11", 2, 12);
    machine_add_gpu(inv, "12-15", 3, 13);
    return inv;
}
