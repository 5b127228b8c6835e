/* rig.h - a rank's job as ddp_commit and ddp_data_open leave it, of a team and a state alone, for unit tests of
 * checkpoints. */
#ifndef DDP_T_UNIT_SAVE_RIG_H
#define DDP_T_UNIT_SAVE_RIG_H

#include "runtime/base/handover.h"
#include "runtime/save/save.h"
#include "t/lib/ranks.h"
#include "t/unit/unit.h"

enum { RIG_PARAMS = 4, RIG_SAMPLES = 1000, RIG_STEP = 7 };

struct rig {
    struct config config;
    struct team team;
    struct state state;
    struct save save;
    struct world *world;
};

struct rig_plan {
    bool is_spread;
    const char *rename; /* parameter 1's name is this; NULL: p1 */
    int n_params;       /* 0: RIG_PARAMS */
    const char *rule;   /* of the optimizer; NULL: adamw */
    bool is_cut;        /* what rig_save_rank saves has the sums of a step that was cut */
    const char *error;  /* what a resume says; NULL: it succeeds */
    uint64_t n_samples;
    bool has_guards;
    int generation;
    const char *warning; /* on rank 0; NULL: none */
    int rc;              /* of a resume with guards, */
    int saved_on;        /* after so many ranks' run */
    bool on_two_nodes;
    bool is_full;  /* the file system, while it resumes */
    bool replaces; /* its first save, a checkpoint that it did not resume from */
};

/* What guards keep. */
extern struct rig_guard {
    int pair[2], memory[HANDOVER_KINDS];
} rig_guard[RANKS_MAX];

/* In a rank of a job whose argument is a plan. */
int rig_open(struct rig *r, struct job *j, int rank, ddp_error_t *errp);
void rig_close(struct rig *r);

float *rig_values(const struct rig *r, int id); /* of a parameter */

/* Values and moments that follow from the element, a place in the data, RIG_STEP; are they there again? */
void rig_fill(struct rig *r);
bool rig_is_filled(const struct rig *r, const struct data_position *at);

/* In a rank: saves what is there as of this step, in dir. Whether it was committed. */
bool rig_save(struct rig *r, uint64_t step, const char *dir);

/* f on so many ranks. */
bool rig_run(rank_f *f, int size, const struct rig_plan *p);

/* A rank_f: a checkpoint of what rig_fill has filled, committed in test_folder; rank 0's place in the data is in
 * j->shared. */
int rig_save_rank(struct job *j, int rank);

/* In test_folder: whether this is there; changes a byte of a file. */
bool rig_has(const char *name);
void rig_damage(const char *name);

#endif
