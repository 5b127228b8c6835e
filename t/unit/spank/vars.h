/* vars.h - variables of a task, as the plugin's pure parts look them up; for unit tests of spank/. */
#ifndef DDP_T_UNIT_SPANK_VARS_H
#define DDP_T_UNIT_SPANK_VARS_H

#include "t/unit/unit.h"

#define VARS_MAX 40

struct vars {
    int n;
    char name[VARS_MAX][48], value[VARS_MAX][1200];
};

const char *lookup(const char *name, void *arg); /* arg: struct vars; NULL where there is none */
void put(struct vars *v, const char *name, const char *value);
void drop(struct vars *v, const char *name);

/* Rank 2 of 4 on n1,n2 with two tasks each, as Slurm 22.05 describes it. */
struct vars plain_step(void);

#endif
