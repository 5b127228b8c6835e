/* kept.h - snapshots in memory that the test keeps over generations of ranks, as their guards do. */
#ifndef DDP_T_UNIT_SAVE_KEPT_H
#define DDP_T_UNIT_SAVE_KEPT_H

#include "t/unit/save/rig.h"

/* The fixture: guards that keep nothing yet, and test_folder. */
int kept_open(void **state);
int kept_close(void **state);
#define KEPT_TEST(f) cmocka_unit_test_setup_teardown(f, kept_open, kept_close)

/* f on so many ranks, whose memory is kept. */
bool kept_run(rank_f *f, int size, const struct rig_plan *p);
void kept_damage(int rank, enum handover_kind kind); /* every byte behind the two heads */
void kept_lose(int rank);

/* Where a node's ranks stand, and then their folder is "ckpt" there; NULL: anywhere, and it is test_folder. */
extern const char *kept_stands[2];
const char *kept_go_there(const struct rig *r);

/* In a rank: takes a snapshot, which is on the other node, too, when this returns; every value as its negative. */
void kept_snap(struct rig *r);
void kept_negate(struct rig *r);

/* A rank_f: resumes, from what is kept or a checkpoint, as the plan says. */
int kept_recall_rank(struct job *j, int rank);

#endif
