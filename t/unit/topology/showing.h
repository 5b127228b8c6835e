/* showing.h - machines made up for the tests of what is shown: one at a time, m, empty as each test begins. */
#ifndef DDP_T_UNIT_TOPOLOGY_SHOWING_H
#define DDP_T_UNIT_TOPOLOGY_SHOWING_H

#include "topology/show.h"

/* Control characters, markup, no UTF-8, text that turns its direction; 63 bytes cut within a character. */
#define HOSTILE "a<b>&\"'\x1b[31m\n\xff\xe2\x80\xae\xc3\xa9]]>\xc3"

struct machine {
    struct inventory inv;
    struct placement_rank rank[64];
    struct place place[64];
    struct placement_request request;
    struct show show;
};

extern struct machine *m;

int machine_set_up(void **state);
int machine_tear_down(void **state);
#define CASE(f) cmocka_unit_test_setup_teardown(f, machine_set_up, machine_tear_down)

/* Cores of two threads, CPU i and i + n_cores; caches of n_per_cache cores. */
void add_cores(int n_packages, int n_numas, int n_cores, int n_per_cache);

/* numa: -1 where the machine does not tell. root, bridge: the host bridge and the one below; root -1: no path. */
void add_gpu(int bus, int numa, int root, int bridge);
void add_nic(const char *name, int bus, int numa, int root, int bridge);

/* Two packages of two nodes, a switch with a GPU and a NIC in the first of each. */
void two_gpus(void);

/* n ranks that may use everything and see all GPUs, placed by the rule. */
void place(int n);

/* Two ranks on two_gpus(), everything that has a name called HOSTILE. */
void place_hostile(void);

#define assert_has(text, part)                                                                                         \
    do {                                                                                                               \
        if (!strstr((text), (part)))                                                                                   \
            fail_msg("lacks \"%s\":\n%s", (part), (text));                                                             \
    } while (0)

#define assert_lacks(text, part)                                                                                       \
    do {                                                                                                               \
        if (strstr((text), (part)))                                                                                    \
            fail_msg("has \"%s\":\n%s", (part), (text));                                                               \
    } while (0)

#endif
