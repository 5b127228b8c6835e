/* links.c - links between GPUs, as a table and by speed. */
#include "topology/show/impl.h"

/* The fastest speed of a pair below `below`; 0: there is none. *ret_n: how many pairs have it. */
static uint32_t next_speed(const struct inventory *inv, uint32_t below, size_t *ret_n)
{
    uint32_t best = 0;
    *ret_n = 0;
    for (size_t i = 0; i < inv->n_gpus; i++)
        for (size_t j = i + 1; j < inv->n_gpus; j++) {
            uint32_t mbps = inv->link_mbps[i][j];
            if (mbps >= below || mbps < best || !mbps)
                continue;
            *ret_n = mbps > best ? 1 : *ret_n + 1;
            best = mbps;
        }
    return best;
}

static void add_pairs(struct text *t, const struct inventory *inv, uint32_t mbps)
{
    const char *comma = "";
    for (size_t i = 0; i < inv->n_gpus; i++)
        for (size_t j = i + 1; j < inv->n_gpus; j++)
            if (inv->link_mbps[i][j] == mbps) {
                text_printf(t, "%s%d-%d", comma, (int)i, (int)j);
                comma = ", ";
            }
}

void show_add_speeds(struct text *t, const struct inventory *inv)
{
    enum { PAIRS_MAX = 16 }; /* that are named */
    size_t n_all = inv->n_gpus * (inv->n_gpus - 1) / 2, n;
    const char *before = "links between GPUs, ";
    for (uint32_t mbps = UINT32_MAX; (mbps = next_speed(inv, mbps, &n)); before = "; ") {
        text_printf(t, "%s%.0f GB/s each way: ", before, mbps / 1000.0);
        if (n == n_all)
            text_add(t, "every pair");
        else if (n <= PAIRS_MAX)
            add_pairs(t, inv, mbps);
        else
            text_printf(t, "%zu pairs", n);
    }
}

/* One that some pair has, 0 where no link is known. */
static uint32_t some_link(const struct inventory *inv, bool *ret_is_all)
{
    uint32_t some = 0;
    for (size_t i = 0; i < inv->n_gpus; i++)
        for (size_t j = 0; j < inv->n_gpus; j++)
            if (i != j && inv->link_mbps[i][j])
                some = inv->link_mbps[i][j];
    *ret_is_all = true;
    for (size_t i = 0; i < inv->n_gpus; i++)
        for (size_t j = 0; j < inv->n_gpus; j++)
            *ret_is_all &= i == j || inv->link_mbps[i][j] == some;
    return some;
}

void show_add_links(struct text *t, const struct inventory *inv)
{
    bool is_all;
    uint32_t mbps = some_link(inv, &is_all);
    if (!mbps)
        return;
    if (is_all) {
        text_printf(t, "\nlinks between GPUs: every pair, %.0f GB/s each way\n", mbps / 1000.0);
        return;
    }
    text_add(t, "\nlinks between GPUs, GB/s each way\n      ");
    for (size_t j = 0; j < inv->n_gpus; j++)
        text_printf(t, "%5d", (int)j);
    text_add(t, "\n");
    for (size_t i = 0; i < inv->n_gpus; i++) {
        text_printf(t, "  %4d", (int)i);
        for (size_t j = 0; j < inv->n_gpus; j++) {
            if (inv->link_mbps[i][j])
                text_printf(t, "%5.0f", inv->link_mbps[i][j] / 1000.0);
            else
                text_add(t, "    -");
        }
        text_add(t, "\n");
    }
}
