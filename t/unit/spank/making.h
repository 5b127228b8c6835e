/* making.h - what a task is given, for the tests of environment.h. */
#ifndef DDP_T_UNIT_SPANK_MAKING_H
#define DDP_T_UNIT_SPANK_MAKING_H

#include "spank/environment.h"
#include "t/unit/spank/vars.h"

/* As a task of ours would see it: the variables of environment_make on top of v's. */
struct environment make_with(struct vars *v, const char *option, struct environment_place place);
struct environment make(struct vars *v, const char *option); /* with four cores of its own, and no GPU */

#define assert_var(v, name, want) assert_string_equal(lookup(name, v), want)

/* plain_step as two nodes with one task each, of which this is the second. gpus: those that it sees; NULL: none. */
struct vars one_task_a_node(const char *gpus);

#endif
