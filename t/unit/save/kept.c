#include "t/unit/save/kept.h"

#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/frame.h"
#include "runtime/base/io.h"
#include "runtime/save/resume.h"
#include "t/lib/folder.h"

void kept_snap(struct rig *r)
{
    r->save.recall.is_due = true;
    recall_take(&r->save);
    checkpoint_wait_copied(&r->save);
    while (r->save.recall.mirror && !mirror_is_done(r->save.recall.mirror))
        sched_yield();
}

void kept_negate(struct rig *r)
{
    for (size_t i = 0; i < r->state.layout.n_bytes / sizeof(float); i++)
        r->state.arena.values[i] *= -1;
}

const char *kept_stands[2];

const char *kept_go_there(const struct rig *r)
{
    const char *at = kept_stands[r->team.me.node];
    return at && chdir(at) == 0 ? "ckpt" : test_folder;
}

int kept_recall_rank(struct job *j, int rank)
{
    const struct rig_plan *p = j->arg;
    const struct data_position at = {.cursor = 2 * RIG_STEP * (unsigned)p->saved_on};
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    int rc = resume_newest(&r.save, kept_go_there(&r), &e);
    const struct ddp_checkpoint_status *s = &r.save.checkpoint.status;
    CHECK(rc == p->rc, "%d: %s", rc, e.text);
    CHECK(rc == 0 || rig_is_filled(&r, &at), "not what was there");
    CHECK(rc == 0 || !strcmp(s->path, RECALL_PATH) == (!p->warning || strstr(p->warning, "took the copy")), "%s",
          s->path);
    CHECK(rank || !p->warning == !*s->warning, "%s", s->warning);
    CHECK(rank || !p->warning || strstr(s->warning, p->warning), "%s", s->warning);
    rig_close(&r);
    return 0;
}

int kept_open(void **state)
{
    for (int i = 0; i < RANKS_MAX; i++) {
        rig_guard[i].memory[0] = rig_guard[i].memory[1] = -1;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, rig_guard[i].pair) < 0)
            return -1;
    }
    return folder_make(state);
}

int kept_close(void **state)
{
    for (int i = 0; i < RANKS_MAX; i++) {
        io_close(rig_guard[i].memory[0]);
        io_close(rig_guard[i].memory[1]);
        close(rig_guard[i].pair[0]);
        close(rig_guard[i].pair[1]);
    }
    return folder_remove(state);
}

static void keep_memory(int n_ranks)
{
    for (int i = 0; i < n_ranks; i++) {
        struct frame f = {.takes_fd = true};
        int kind;
        size_t n;
        while (frame_next(&f, rig_guard[i].pair[0], &kind, &n) > 0) {
            int *memory = &rig_guard[i].memory[bytes_get32(f.bytes + FRAME_HEAD)];
            io_close(*memory);
            *memory = frame_take_fd(&f);
        }
    }
}

bool kept_run(rank_f *f, int size, const struct rig_plan *p)
{
    bool is_well = rig_run(f, size, p);
    keep_memory(size);
    return is_well;
}

void kept_damage(int rank, enum handover_kind kind)
{
    unsigned char b[4096];
    int fd = rig_guard[rank].memory[kind];
    for (off_t at = 8192; pread(fd, b, sizeof b, at) == sizeof b; at += sizeof b) {
        for (size_t i = 0; i < sizeof b; i++)
            b[i]++;
        assert_int_equal(pwrite(fd, b, sizeof b, at), sizeof b);
    }
}

void kept_lose(int rank)
{
    for (int i = 0; i < HANDOVER_KINDS; i++) {
        io_close(rig_guard[rank].memory[i]);
        rig_guard[rank].memory[i] = -1;
    }
}
