/* A stop at the job's end, over ranks that are processes: Slurm is asked again first, for the end may have moved. */
#include "t/unit/save/rig.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/save/resume.h"
#include "t/lib/folder.h"

/* A job at its last moment, by the end that rank 0 knows and has not asked for since; scontrol is a script of ours. */
static bool stops(struct rig *r, const char *answer, long long end_t)
{
    double sum[STOP_N] = {0};
    ddp_error_t e;
    char path[128];
    FILE *f = NULL;
    snprintf(path, sizeof path, "%s/scontrol", test_folder);
    if (r->team.me.rank == 0 && (f = fopen(path, "w"))) {
        fprintf(f, "#!/bin/sh\n");
        fprintf(f, answer, end_t);
        r->save.scheduler.deadline.end_s = (double)clock_ns() / 1e9;
        r->save.scheduler.asked_s = -INFINITY;
        fclose(f);
        chmod(path, 0755);
    }
    scheduler_fill_stop(&r->save, sum);
    return comm_allreduce(r->team.comm, sum, STOP_N, DDP_F64, DDP_SUM, &e) == 0 && sum[STOP_DEADLINE] > 0;
}

static int late_stop_rank(struct job *j, int rank)
{
    static const char *const answer = "echo JobId=12 UserId=u JobState=RUNNING StartTime=1000 EndTime=%lld "
                                "SuspendTime=1080 SecsPreSuspend=10\n";
    struct rig r;
    ddp_error_t e = {0};
    double end_s = 0;
    long long now = (long long)time(NULL);
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    CHECK(resume_newest(&r.save, test_folder, &e) == 0, "%s", e.text);
    if (rank == 0)
        end_s = scheduler_end_s(&r.save);
    CHECK(isfinite(end_s), "nobody knows the end");
    CHECK(!stops(&r, answer, now + 7200), "the end has moved");
    CHECK(rank != 0 || r.save.scheduler.due.suspended_s == 70, "not the time of the suspension");
    CHECK(rank != 0 || r.save.scheduler.deadline.end_s > end_s + 3000, "not the answer");
    CHECK(stops(&r, answer, now), "the end has not moved");
    CHECK(stops(&r, "exit 1\n", 0), "no answer");
    r.team.timeout_s = 2;
    CHECK(stops(&r, "exec sleep 1000\n", 0), "no answer in time");
    rig_close(&r);
    return 0;
}

static void a_stop_waits_for_the_end_that_may_have_moved(void **state)
{
    const struct rig_plan plain = {0};
    char path[128], end[32];
    (void)state;
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", test_folder);
    snprintf(end, sizeof end, "%lld", (long long)time(NULL) + 3600);
    setenv("PATH", path, 1);
    setenv("SLURM_JOB_ID", "12", 1);
    setenv("SLURM_JOB_END_TIME", end, 1);
    assert_true(rig_run(late_stop_rank, 2, &plain));
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_JOB_END_TIME");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_stop_waits_for_the_end_that_may_have_moved, folder_make, folder_remove),
};

UNIT_MAIN(tests)
