/* loop_say.h - what the training loop (loop.h) tells: lines, JSON, warnings, and the block on a terminal (live.h). */
#ifndef DDP_RUNTIME_TRAIN_LOOP_SAY_H
#define DDP_RUNTIME_TRAIN_LOOP_SAY_H

#include "runtime/train/loop.h"

/* A sum and the time that it took, of which what is past counts less and less. */
struct loop_recent {
    double n, s;
};

struct loop_say {
    const ddp_t *d;
    const struct loop_options *o;
    bool is_gpu, has_validation;
    int slow_rank; /* that was warned of last; -1: none */
    uint64_t line_ns, step_ns;         /* the last line, the last step; less what was not training */
    uint64_t line_tokens, step_tokens; /* since then; this rank's, and all have as many but for an epoch's end */
    uint64_t first_ns, first_step;     /* the first step of this run, from which on steps are timed; 0: none yet */
    double exposed_s, wall_s;          /* of ddp_metrics, as drawn last */
    struct loop_recent tokens, exposed;
};

void loop_say_begin(struct loop_say *t, const ddp_t *d, const struct loop_model *m, const struct loop_options *o);

/* After each step that was not cut, with its tokens of this rank in t->step_tokens: lines, a warning of a rank that is
 * slow, once for as long as no other is, and the block. */
void loop_say_step(struct loop_say *t, const struct ddp_step *s);

/* began_ns: since then there was no training, for the validation's sake. */
void loop_say_validation(struct loop_say *t, uint64_t step, double loss, uint64_t began_ns);

/* A line of the loop's, with its newline; not with options->quiet. */
void loop_say_line(const struct loop_options *o, const char *text);

void loop_say_warning(const struct loop_options *o, const char *text);

#endif
