/* foreign_read.c - a checkpoint of another framework's state, into memory of ours. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/base/budget.h"
#include "runtime/save/resume.h"
#include "runtime/save/save.h"

#define ALIGN_BYTES ((size_t)64)

/* Plans to read the manifest's tensors, this rank a part of each, into one block. */
static int plan_to_read(struct save *save, const struct manifest *m, ddp_error_t *errp)
{
    struct checkpoint_plan *plan = &save->checkpoint.plan;
    const struct ddp_world *me = &save->team->me;
    size_t n_bytes = 0, *offset = plan->offset[0] = calloc(m->n_tensors + 1, sizeof *offset);
    plan->files.tensor = calloc(m->n_tensors + 1, sizeof *plan->files.tensor);
    if (!offset || !plan->files.tensor)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the names of %zu tensors", m->n_tensors);
    plan->files.n_tensors = m->n_tensors;
    for (size_t i = 0; i < m->n_tensors; i++) {
        plan->files.tensor[i] = m->tensor[i].at;
        offset[i] = n_bytes;
        n_bytes += (size_t)m->tensor[i].at.t.n_bytes;
        n_bytes = (n_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    }
    const struct budget_part part = {"a checkpoint that is read", n_bytes};
    if (budget_check("", &part, 1, me->local_size, errp) < 0)
        return -1;
    save->foreign.found.block = aligned_alloc(ALIGN_BYTES, n_bytes + ALIGN_BYTES);
    if (!save->foreign.found.block)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a checkpoint of %zu bytes", n_bytes);
    plan->arena[0] = (struct split_arena){save->foreign.found.block, 0, m->n_tensors, offset};
    plan->n_arenas = 1;
    return split_add_arena(&plan->split, &plan->files, &plan->arena[0], me->rank, me->size, errp);
}

static int read_tensors(struct save *save, const char *path, const struct manifest *m, ddp_error_t *errp)
{
    size_t *index = calloc(m->n_tensors + 1, sizeof *index);
    uint64_t *sum = calloc(m->n_tensors + 1, sizeof *sum);
    int rc = index && sum ? 0 : team_no_memory(save->team, "the names of a checkpoint's tensors", errp);
    for (size_t i = 0; rc == 0 && i < m->n_tensors; i++)
        index[i] = i;
    if (rc == 0)
        rc = resume_tensors(save, path, m, index, sum, errp);
    free(index);
    free(sum);
    return rc;
}

/* What was read outlives the plan. */
static void keep(struct save *save)
{
    struct checkpoint_plan *plan = &save->checkpoint.plan;
    save->foreign.found.tensor = plan->files.tensor;
    save->foreign.found.n = plan->files.n_tensors;
    save->foreign.found.offset = plan->offset[0];
    plan->files.tensor = NULL;
    plan->offset[0] = NULL;
}

int foreign_read(struct save *save, const char *path, const struct manifest *m, ddp_error_t *errp)
{
    ddp_error_t why = {0}, told;
    foreign_forget(save);
    checkpoint_drop_plan(save);
    save->foreign.planned = 0;
    plan_to_read(save, m, &why);
    int rc = checkpoint_agree(save, &why, &told, errp);
    if (rc == 0 && told.code) {
        if (errp)
            *errp = told;
        rc = -1;
    }
    if (rc == 0)
        rc = read_tensors(save, path, m, errp);
    if (rc > 0)
        rc = resume_text(save, path, m, FOREIGN_TEXT_NAME, &save->foreign.found.text, errp);
    if (rc > 0)
        keep(save);
    else
        foreign_forget(save);
    checkpoint_drop_plan(save);
    return rc;
}
