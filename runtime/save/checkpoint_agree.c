/* checkpoint_agree.c - what ranks tell each other, and the program, about checkpoints. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/plain.h"
#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/folder.h"
#include "runtime/save/save.h"

int checkpoint_agree(struct save *save, const ddp_error_t *own, ddp_error_t *ret, ddp_error_t *errp)
{
    int n = save->team->me.size, first = 0;
    char mine = own->code != 0, *all = team_gather(save->team, &mine, sizeof mine, errp);
    ddp_error_t told = *own;
    *ret = (ddp_error_t){0};
    if (!all)
        return -1;
    while (first < n && !all[first])
        first++;
    free(all);
    if (first == n)
        return 0;
    if (comm_bcast(save->team->comm, &told, sizeof told, first, errp) < 0)
        return team_break(save->team);
    *ret = told;
    save->checkpoint.culprit = first;
    if (n > 1)
        error_prefix(ret, "rank %d", first);
    return 0;
}

int checkpoint_path_sum(struct save *save, const char *path, uint64_t *ret, ddp_error_t *errp)
{
    *ret = checksum_bytes(path, strlen(path));
    return comm_bcast(save->team->comm, ret, sizeof *ret, 0, errp) < 0 ? team_break(save->team) : 0;
}

void checkpoint_warn(struct save *save, const char *fmt, ...)
{
    struct ddp_checkpoint_status *s = &save->checkpoint.status;
    size_t n = save->checkpoint.warned_ns == save->state->micro.began_ns ? strlen(s->warning) : 0;
    char text[sizeof s->warning];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    plain_line(text);
    save->checkpoint.warned_ns = save->state->micro.began_ns;
    if (save->team->me.rank == 0 && !(n && strstr(s->warning, text)))
        snprintf(s->warning + n, sizeof s->warning - n, "%s%s", n ? "; " : "", text);
}

void checkpoint_set_path(struct save *save, const char *dir, uint64_t step)
{
    struct ddp_checkpoint_status *s = &save->checkpoint.status;
    char name[32], path[FOLDER_PATH_MAX];
    s->last_step = step;
    folder_name(step, name);
    if (folder_path(path, dir, name, NULL) < 0)
        return;
    size_t n = strlen(path), cut = n < sizeof s->path ? 0 : n + 1 - sizeof s->path;
    strcpy(s->path, path + cut);
}

int checkpoint_add_sums(struct save *save, uint64_t *sum, ddp_error_t *errp)
{
    size_t n = save->checkpoint.plan.files.n_tensors;
    int64_t *half = calloc(2 * n + 1, sizeof *half);
    if (!half)
        return team_no_memory(save->team, "checksums", errp);
    for (size_t i = 0; i < n; i++) {
        half[2 * i] = (int64_t)(sum[i] & UINT32_MAX);
        half[2 * i + 1] = (int64_t)(sum[i] >> 32);
    }
    int rc = comm_allreduce(save->team->comm, half, 2 * n, DDP_I64, DDP_SUM, errp);
    for (size_t i = 0; rc == 0 && i < n; i++)
        sum[i] = (uint64_t)half[2 * i] + ((uint64_t)half[2 * i + 1] << 32);
    free(half);
    return rc < 0 ? team_break(save->team) : 0;
}
