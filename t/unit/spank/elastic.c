#include "config.h"
#include "t/unit/spank/elastic.h"

#include <signal.h>

struct elastic elastic;

void elastic_start(struct members *m, int nodes, int ranks)
{
    memset(&elastic, 0, sizeof elastic);
    members_start_all(m, nodes, ranks);
}

void elastic_kill_node(struct members *m, int node)
{
    for (int r = node * m->per_node; r < (node + 1) * m->per_node; r++) {
        members_kill(m, r);
        elastic.is_dead[r] = true;
    }
}

void elastic_stop_node(struct members *m, int node)
{
    assert_int_equal(kill(m->of[node].pid, SIGSTOP), 0);
    elastic.is_dead[node] = true;
}

void elastic_hear(struct members *m, int r, struct heard *h)
{
    if (!members_hears(m, r, 40, h))
        fail_msg("rank %d has heard nothing", r);
    if (h->news[0])
        strcpy(elastic.news, h->news);
    elastic.has_told[r] |= h->is_ours;
}

void elastic_hear_verdict(struct members *m)
{
    struct heard h;
    for (int r = 0; r < m->n; r++)
        do
            if (!elastic.is_dead[r])
                elastic_hear(m, r, &h);
        while (!elastic.is_dead[r] && !h.verdict.next);
}

void elastic_begin_next(struct members *m, int generation, int size, const int *rank)
{
    struct heard h;
    for (int r = 0; r < m->n; r++)
        if (!elastic.is_dead[r])
            members_tell(m, r, DO_GONE);
    for (int r = 0; r < m->n; r++) {
        if (elastic.is_dead[r])
            continue;
        do
            elastic_hear(m, r, &h);
        while (h.generation != generation);
        if (h.rank != rank[r] || (h.rank != WAITS && h.size != size))
            fail_msg("task %d is rank %d of %d", r, h.rank, h.size);
    }
}

void elastic_go_on(struct members *m, int generation, int size, const int *rank)
{
    elastic_hear_verdict(m);
    elastic_begin_next(m, generation, size, rank);
}

struct death elastic_hear_the_end(struct members *m)
{
    struct heard h = {.verdict = {.kind = DEATH_NONE}};
    for (int r = 0; r < m->n; r++)
        do
            if (!elastic.is_dead[r])
                elastic_hear(m, r, &h);
        while (!elastic.is_dead[r] && (h.verdict.kind == DEATH_NONE || h.verdict.next));
    return h.verdict;
}

void elastic_end(struct members *m)
{
    elastic_hear_verdict(m);
    for (int r = 0; r < m->n; r++)
        if (!elastic.is_dead[r])
            members_tell(m, r, DO_GONE);
    struct death d = elastic_hear_the_end(m);
    assert_true(death_is_nodes(&d));
    assert_int_equal(d.of, 0);
    members_end(m);
}

void elastic_finish(struct members *m, const int *rank)
{
    for (int r = 0; r < m->n; r++)
        if (!elastic.is_dead[r] && rank[r] != WAITS)
            members_tell(m, r, DO_FINISH);
    for (int r = 0; r < m->n; r++)
        if (!elastic.is_dead[r]) {
            struct heard h;
            while (members_hears(m, r, 20, &h))
                ;
        }
    members_end(m);
}

void elastic_hear_news(struct members *m, int root, const char *want)
{
    struct heard h;
    while (!strstr(elastic.news, want))
        elastic_hear(m, root, &h);
}
