/* flipprobe.c - a job in one of whose ranks a bit of the parameters flips:
 * flipprobe STEPS ELEMS ACCUM [RANK STEP BIT [DIR [stop]]]. Takes STEPS steps of ACCUM micro-steps with a parameter of
 * ELEMS elements; before step STEP rank RANK's bit BIT flips; "nan": its last element becomes one, and with it all
 * gradients; "join": no bit flips, but it joins; "stop": it is asked to stop, too. With DIR: a checkpoint every fifth
 * step, which that bit is right for, so that steps alone can find it, and one at the end. Prints what ended it:
 * "N: TEXT", after N steps. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ddp.h"

static ddp_error_t e;

static size_t number(char **argv, int argc, int i)
{
    return i < argc ? strtoul(argv[i], NULL, 10) : 0;
}

static void flip(float *values, size_t n, const char *bit_text)
{
    size_t bit = strtoul(bit_text, NULL, 10);
    if (!strcmp(bit_text, "nan")) {
        values[n - 1] = strtof("nan", NULL);
        return;
    }
    unsigned char *bytes = (unsigned char *)values;
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
}

static int save(ddp_t *d, const char *dir)
{
    return ddp_checkpoint(d, dir, &e) == 0 ? ddp_checkpoint_wait(d, &e) : -1;
}

static int take_step(ddp_t *d, int id, struct ddp_step *s)
{
    struct ddp_batch b;
    do {
        if (ddp_batch_next(d, &b, &e) < 0)
            return -1;
        struct ddp_param p = ddp_param_get(d, id);
        float *grad = p.grad, *value = p.value;
        grad[ddp_world(d)->rank] = 1 + 0 * value[p.n_elems - 1]; /* all others are 0 */
        ddp_grad_ready(d, id);
        if (ddp_backward_end(d, 1, 1, &e) < 0)
            return -1;
    } while (!b.sync);
    return ddp_step(d, s, &e);
}

int main(int argc, char **argv)
{
    struct ddp_optimizer opt = {.lr = .001f, .rule = "sgd"};
    ddp_t *d = ddp_init(&argc, &argv, &e);
    size_t n_steps = number(argv, argc, 1), n_elems = number(argv, argc, 2), accum = number(argv, argc, 3), step = 0;
    bool is_mine = d && argc > 4 && (int)number(argv, argc, 4) == ddp_world(d)->rank;
    const char *bit = argc > 6 ? argv[6] : "0", *dir = argc > 7 ? argv[7] : NULL;
    bool is_join = !strcmp(bit, "join");
    int id = d ? ddp_param_add(d, "w", DDP_F32, &n_elems, 1, 0) : -1;
    int rc = d && ddp_commit(d, &opt, &e) == 0 ? 0 : -1;
    if (rc == 0) /* an epoch is 64 steps */
        rc = ddp_data_open(d, 64 * accum * (size_t)ddp_world(d)->size, 1, (int)accum, 0, 1, &e);
    if (rc == 0 && dir)
        rc = ddp_checkpoint_open(d, dir, &e) < 0 ? -1 : 0;
    bool has_flipped = false;
    struct ddp_step s = {0};
    while (rc == 0 && step < n_steps && !s.stop) {
        if (is_mine && step == number(argv, argc, 5)) {
            if (is_join)
                break;
            flip(ddp_param_get(d, id).value, n_elems, bit);
            has_flipped = true;
            if (argc > 8)
                raise(SIGTERM);
        }
        rc = take_step(d, id, &s);
        step += rc == 0;
        if (rc < 0 || !dir || s.stop || step % 5)
            continue;
        for (int i = 0; i < 2 && rc == 0; i++) {
            if (has_flipped)
                flip(ddp_param_get(d, id).value, n_elems, bit);
            rc = i == 0 ? save(d, dir) : 0;
        }
    }
    if (rc == 0 && dir)
        rc = save(d, dir);
    if (rc == 0 && is_join)
        rc = ddp_join(d, &e);
    if (rc < 0) {
        printf("%zu: %s\n", step, e.text);
        ddp_abort(d, 1, e.text);
    }
    ddp_finalize(d);
    return rc < 0;
}
