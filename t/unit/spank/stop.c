/* A stop, beside one program: the key, what the program gets, when, and what is asked of the controller, which is a
 * script of ours. (t/t1016 has Slurm's.) */
#include "config.h"
#include "t/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "spank/guard/guard.h"
#include "spank/guard/stop.h"
#include "t/lib/folder.h"

#define TOKEN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char path_variable[128];
static char *environment[] = {path_variable, "SLURM_JOB_ID=12", "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=1",
                              "DDP_OPTION=on,stop=USR1", NULL};
static char *arguments[] = {"./train", "a b"};

/* One rank, which is its own root. */
static struct guards_facts facts_of(int before_s)
{
    return (struct guards_facts){.rank = 0, .size = 1, .local_size = 1, .n_nodes = 1, .name = "n1", .ends_step = true,
                                 .join_s = GUARDS_JOIN_S, .stuck_s = GUARDS_STUCK_S, .idle_s = GUARDS_IDLE_S,
                                 .heed_s = 0.1, .token = TOKEN, .step = "12.3", .stop = {SIGUSR1, before_s},
                                 .stop_code = 75, .saves = true, .env = environment, .argc = 2, .argv = arguments};
}

static void the_key_is_strict(void **state)
{
    static const struct {
        const char *text;
        int signal, before_s;
    } good[] = {{"none", 0, 0}, {"USR1", SIGUSR1, 0}, {"SIGTERM", SIGTERM, 0}, {"USR2@90", SIGUSR2, 90},
                {"INT@1000000", SIGINT, 1000000}};
    static const char *const bad[] = {"", "on", "USR", "SIG", "USR1@", "USR1@0", "USR1@x", "USR1@1000001", "usr1", "10",
                                      "KILL@60", "none@60", "@60"};
    struct stop_key k;
    ddp_error_t e;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(stop_key_parse(good[i].text, "--ddp", &k, &e), 0);
        assert_true(k.signal == good[i].signal && k.before_s == good[i].before_s);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e.text[0] = 0;
        assert_int_equal(stop_key_parse(bad[i], "--ddp", &k, &e), -1);
        assert_error_has(e, "as in USR1@120");
    }
    assert_string_equal(stop_key_name(SIGUSR1), "SIGUSR1");
}

/* ---- what the program gets ---- */

struct task {
    pid_t pid; /* of the guard */
    int in;    /* what the program, or the guard on stderr, writes */
};

/* Catches, and says each signal, until it has had SIGHUP or SIGWINCH. */
static int catches(int out)
{
    sigset_t s;
    int signo;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    sigaddset(&s, SIGTERM);
    sigaddset(&s, SIGHUP);
    sigaddset(&s, SIGWINCH);
    sigprocmask(SIG_BLOCK, &s, NULL);
    (void)!write(out, "r", 1);
    while (sigwait(&s, &signo) == 0 && signo != SIGHUP && signo != SIGWINCH)
        (void)!write(out, signo == SIGUSR1 ? "X" : "Y", 1);
    return 75;
}

static int sleeps(int out)
{
    (void)!write(out, "r", 1);
    for (;;)
        pause();
    return 0;
}

static const struct guards_facts *own; /* of the task that is started */
static int generation;                 /* of its program */

static struct task start(const struct guards_facts *f, int program(int out))
{
    int fd[2];
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    struct task t = {.pid = fork(), .in = fd[0]};
    if (t.pid == 0) {
        ddp_error_t e;
        struct seat seat;
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(fd[1], STDERR_FILENO);
        own = f;
        generation = guard_start(f, &seat, &e);
        _exit(generation < 0 ? 99 : program(STDERR_FILENO));
    }
    close(fd[1]);
    return t;
}

static int read_until(struct task t, const char *part, char *text, size_t size)
{
    uint64_t until = deadline_in(20);
    size_t n = strlen(text);
    while (!strstr(text, part) && n + 1 < size && deadline_left_ns(until) > 0) {
        struct pollfd p = {.fd = t.in, .events = POLLIN};
        if (poll(&p, 1, deadline_left_ms(until)) == 1) {
            ssize_t got = read(t.in, text + n, 1);
            if (got < 1)
                break;
            text[++n] = 0;
        }
    }
    return strstr(text, part) ? 0 : -1;
}

static int end(struct task t)
{
    int status;
    waitpid(t.pid, &status, 0);
    close(t.in);
    return status;
}

static int count(const char *text, char c)
{
    int n = 0;
    for (; *text; text++)
        n += *text == c;
    return n;
}

static void it_comes_once_and_in_slurms_place(void **state)
{
    static const int first[] = {SIGUSR1, SIGTERM};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char text[512] = "";
        struct guards_facts f = facts_of(0);
        struct task t = start(&f, catches);
        assert_int_equal(read_until(t, "r", text, sizeof text), 0);
        text[0] = 0;
        kill(t.pid, first[i]);
        assert_int_equal(read_until(t, "to save and end\n", text, sizeof text), 0);
        assert_int_equal(read_until(t, "X", text, sizeof text), 0);
        kill(t.pid, SIGTERM);
        kill(t.pid, SIGUSR1);
        kill(t.pid, SIGWINCH); /* comes after them: of those that wait, the lowest number is first */
        read_until(t, "never", text, sizeof text); /* to the end */
        int status = end(t);
        assert_int_equal(count(text, 'X'), 1);
        assert_int_equal(count(text, 'Y'), 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 75);
        assert_non_null(strstr(text, "ddp: stop: all ranks get SIGUSR1"));
    }
}

/* Dies, and leaves behind what does not mind SIGTERM, for which the next one waits. */
static int dies_slowly(int out)
{
    signal(SIGTERM, SIG_IGN);
    (void)!write(out, generation ? "again\n" : "first\n", 6);
    if (fork() == 0)
        for (;;)
            pause();
    raise(SIGKILL);
    return 0;
}

/* It is said once, and nobody is started for it; the run has not failed. */
static void one_before_a_restart_is_the_end(void **state)
{
    char text[1024] = "", record[160], how[160];
    char *with_record[] = {path_variable, record, NULL};
    struct guards_facts f = facts_of(0);
    (void)state;
    snprintf(record, sizeof record, "DDP_RECORD=%s/called-off", test_folder);
    snprintf(how, sizeof how, "tail -n 1 %s/called-off | grep -q '\"how\": \"stopped\"'", test_folder);
    f.env = with_record;
    f.restarts = 2;
    struct task t = start(&f, dies_slowly);
    assert_int_equal(read_until(t, ": restart 1 of 2\n", text, sizeof text), 0);
    kill(t.pid, SIGUSR1);
    read_until(t, "never", text, sizeof text); /* to the end */
    int status = end(t);
    const char *said = strstr(text, "to save and end\n");
    assert_non_null(said);
    assert_null(strstr(said + 1, "to save and end\n"));
    assert_non_null(strstr(said, "ddp: no restart: a stop was asked for before it\n"));
    assert_null(strstr(text, "again\n"));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(system(how), 0);
}

static void who_does_not_catch_it_has_not_failed(void **state)
{
    char text[512] = "";
    struct guards_facts f = facts_of(0);
    (void)state;
    struct task t = start(&f, sleeps);
    assert_int_equal(read_until(t, "r", text, sizeof text), 0);
    kill(t.pid, SIGUSR1);
    assert_int_equal(read_until(t, "the step ends\n", text, sizeof text), 0);
    int status = end(t);
    assert_non_null(strstr(text, "rank 0 (n1) was ended by SIGUSR1, the stop's signal"));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
}

/* ---- two ranks of a node ---- */

/* The second generation is there when both guards know each other. */
static int sleeps_when_both_are_there(int out)
{
    if (generation == 0 && own->rank == 1)
        return 3;
    if (generation > 0)
        (void)!write(out, "both\n", 5);
    for (;;)
        pause();
    return 0;
}

/* Slurm's SIGTERM is a stop after heed_s; 0: never. One of the two is to be killed, and this process takes in its
 * program. */
static void start_both(struct task t[2], double heed_s, char *text, size_t size)
{
    char token[GUARDS_TOKEN_LEN + 1];
    ddp_error_t e;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* else kill_with_program waits for ever */
    assert_int_equal(io_random_hex(token, GUARDS_TOKEN_LEN / 2, &e), 0);
    for (int i = 0; i < 2; i++) {
        struct guards_facts f = facts_of(0);
        f.rank = f.local_rank = i;
        f.size = f.local_size = 2;
        f.restarts = 1;
        f.silent_s = 3;
        f.heed_s = heed_s;
        strcpy(f.token, token);
        if (heed_s == 0)
            f.saves = false, f.stop.signal = 0;
        t[i] = start(&f, sleeps_when_both_are_there);
    }
    for (int i = 0; i < 2; i++) {
        text[0] = 0;
        assert_int_equal(read_until(t[1 - i], "both\n", text, size), 0);
    }
}

/* It holds its guard's connections: no exec has closed them. */
static void kill_with_program(struct task t)
{
    kill(t.pid, SIGKILL);
    end(t);
    assert_true(waitpid(-1, NULL, 0) > 0);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static void names_rank_1_and_stops_nobody(struct task t, char *text, size_t size)
{
    read_until(t, "never", text, size); /* to the end */
    int status = end(t);
    assert_non_null(strstr(text, "rank 1 (n1) was killed together with its guard"));
    assert_null(strstr(text, "ddp: stop: "));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* Slurm ends the step because of that, and the guard that is left may look at both at once. */
static void who_was_killed_before_slurms_signal_is_named(void **state)
{
    char text[512];
    struct task t[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        int status;
        start_both(t, 3600 * i, text, sizeof text);
        kill(t[0].pid, SIGSTOP);
        assert_int_equal(waitpid(t[0].pid, &status, WUNTRACED), t[0].pid);
        kill_with_program(t[1]);
        kill(t[0].pid, SIGTERM);
        kill(t[0].pid, SIGCONT);
        names_rank_1_and_stops_nobody(t[0], text, sizeof text);
    }
}

/* As on other nodes, where the signal may be there before the word that a guard has gone. */
static void slurms_signal_is_no_stop_where_a_loss_is_heard_behind_it(void **state)
{
    char text[512];
    struct task t[2];
    (void)state;
    start_both(t, 3600, text, sizeof text);
    kill(t[0].pid, SIGTERM);
    kill_with_program(t[1]);
    names_rank_1_and_stops_nobody(t[0], text, sizeof text);
}

static void nor_where_the_step_ends_by_a_death(void **state)
{
    char text[512];
    struct task t[2];
    (void)state;
    start_both(t, 0.1, text, sizeof text);
    kill_with_program(t[1]);
    assert_int_equal(read_until(t[0], "the step ends\n", text, sizeof text), 0);
    kill(t[0].pid, SIGTERM);
    names_rank_1_and_stops_nobody(t[0], text, sizeof text);
}

/* ---- when ---- */

static int64_t now_s(void)
{
    return (int64_t)time(NULL);
}

static void it_comes_before_the_end(void **state)
{
    char text[512] = "";
    struct guards_facts f = facts_of(60);
    (void)state;
    f.end_s = now_s() + 62;
    struct task t = start(&f, catches);
    assert_int_equal(read_until(t, "to save and end\n", text, sizeof text), 0);
    assert_true(f.end_s - now_s() >= 59 && f.end_s - now_s() <= 61);
    kill(t.pid, SIGHUP);
    end(t);
}

/* Each of its steps would be stopped while it starts. */
static void a_job_that_is_shorter_than_that_is_not_stopped(void **state)
{
    char text[512] = "";
    struct guards_facts f = facts_of(60);
    (void)state;
    f.end_s = now_s() + 30;
    struct task t = start(&f, catches);
    assert_int_equal(read_until(t, "nobody is stopped before\n", text, sizeof text), 0);
    assert_non_null(strstr(text, "the job ends in less than the 60 s that stop= asks for"));
    if (text[0] != 'r') /* the program's word, else behind it */
        assert_int_equal(read_until(t, "before\nr", text, sizeof text), 0);
    kill(t.pid, SIGHUP);
    read_until(t, "never", text, sizeof text); /* to the end */
    assert_null(strstr(text, "ddp: stop: "));
    assert_null(strchr(text, 'X'));
    assert_int_equal(WEXITSTATUS(end(t)), 75);
}

/* ---- the controller ---- */

static void put_command(const char *name, const char *format, long long value)
{
    char path[128];
    snprintf(path_variable, sizeof path_variable, "PATH=%s:/usr/bin:/bin", test_folder);
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\necho \"$*\" >>%s/asked\n", test_folder);
    fprintf(f, format, value);
    fclose(f);
    assert_int_equal(chmod(path, 0755), 0);
}

static void put_scontrol(const char *format, long long value)
{
    put_command("scontrol", format, value);
}

static void read_asked(char *buf, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/asked", test_folder);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(buf, 1, size - 1, f) : 0;
    buf[n] = 0;
    if (f)
        fclose(f);
}

/* Seconds until the stop; -1: none within `patience_s`. */
static double stops_after(const struct guards_facts *f, double patience_s)
{
    struct guard_stop s;
    const struct guard_record none = {0};
    uint64_t began = clock_ns(), until = deadline_in(patience_s);
    guard_stop_open(&s, f, &none);
    while (deadline_left_ns(until) > 0) {
        struct pollfd p = {.fd = guard_stop_fd(&s), .events = POLLIN};
        int ms = guard_stop_wait_ms(&s), left = deadline_left_ms(until);
        poll(&p, 1, ms < 0 || ms > left ? left : ms);
        if (guard_stop_step(&s))
            return (double)(clock_ns() - began) / 1e9;
    }
    return -1;
}

#define JOB "echo JobId=12 UserId=u BatchFlag=1 Requeue=1 Restarts=0 JobState=RUNNING EndTime=%lld\n"

static void an_end_that_is_not_known_is_asked(void **state)
{
    char asked[256];
    struct guards_facts f = facts_of(60);
    (void)state;
    put_scontrol(JOB, (long long)now_s() + 62);
    double after = stops_after(&f, 20);
    assert_true(after > 0.5 && after < 10);
    read_asked(asked, sizeof asked);
    assert_string_equal(asked, "-o show job 12\n");
}

static void an_end_that_has_moved_is_asked_again(void **state)
{
    struct guards_facts f = facts_of(60);
    (void)state;
    f.end_s = now_s() + 60 + GUARD_STOP_ASK_AHEAD_S + 2; /* time() may still be in the second before */
    put_scontrol(JOB, (long long)now_s() + 63);
    double after = stops_after(&f, 15);
    assert_true(after > 0.5 && after < 15);
    put_scontrol(JOB, (long long)now_s() + 3600);
    f.end_s = now_s() + 60 + GUARD_STOP_ASK_AHEAD_S + 2; /* time() may still be in the second before */
    assert_true(stops_after(&f, 3) < 0);
}

/* When a step goes on that was suspended past all moments: what its guard has come to by the answer. */
static bool stops_when_it_goes_on(const struct guards_facts *f, bool is_asked_before)
{
    struct guard_stop s;
    const struct guard_record none = {0};
    bool is_due = false;
    guard_stop_open(&s, f, &none);
    s.stop_at = s.asked_at = 1;
    s.ask_at = is_asked_before ? 0 : 1;
    assert_false(guard_stop_step(&s));
    assert_true(s.child.pid > 0);
    while (s.child.pid && !is_due) {
        struct pollfd p = {.fd = guard_stop_fd(&s), .events = POLLIN};
        assert_true(guard_stop_wait_ms(&s) > 0); /* it does not spin */
        poll(&p, 1, guard_stop_wait_ms(&s));
        is_due = guard_stop_step(&s);
    }
    return is_due;
}

static void a_suspension_moves_the_end(void **state)
{
    struct guards_facts f = facts_of(60);
    (void)state;
    f.end_s = now_s() + 3600;
    for (int is_asked_before = 0; is_asked_before < 2; is_asked_before++) {
        put_scontrol(JOB, (long long)now_s() + 7200);
        assert_false(stops_when_it_goes_on(&f, is_asked_before));
        put_scontrol(JOB, (long long)f.end_s);
        assert_true(stops_when_it_goes_on(&f, is_asked_before));
        put_scontrol("exit 1\n", 0);
        assert_true(stops_when_it_goes_on(&f, is_asked_before));
    }
    put_scontrol("exec sleep 1000\n", 0);
    assert_true(stops_when_it_goes_on(&f, false));
}

static void an_end_that_nobody_knows_stops_nobody(void **state)
{
    struct guards_facts f = facts_of(60);
    (void)state;
    put_scontrol("exit 1\n", 0);
    assert_true(stops_after(&f, 1) < 0);
    put_scontrol("echo JobId=12 UserId=u JobState=RUNNING EndTime=Unknown\n", 0);
    assert_true(stops_after(&f, 1) < 0);
}

static void who_has_saved_is_requeued(void **state)
{
    char text[512] = "", asked[256];
    struct guards_facts f = facts_of(0);
    (void)state;
    f.requeues = true;
    put_scontrol(JOB, 1);
    for (int is_caught = 0; is_caught < 2; is_caught++) {
        struct task t = start(&f, is_caught ? catches : sleeps);
        text[0] = 0;
        assert_int_equal(read_until(t, "r", text, sizeof text), 0);
        kill(t.pid, SIGUSR1);
        assert_int_equal(read_until(t, "to save and end\n", text, sizeof text), 0);
        if (is_caught)
            kill(t.pid, SIGHUP);
        int status = end(t);
        if (is_caught) /* who is asked to end by SIGHUP is not waited for */
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 75);
        else
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    }
    read_asked(asked, sizeof asked);
    assert_string_equal(asked, "-o show job 12\nrequeue 12\n");
}

static int saves(int out)
{
    (void)out;
    return 75;
}

static void a_step_by_hand_is_told_how_to_go_on(void **state)
{
    char text[1024] = "";
    struct guards_facts f = facts_of(0);
    (void)state;
    f.requeues = true;
    put_scontrol("echo JobId=12 UserId=u BatchFlag=0 JobState=RUNNING\n", 0);
    struct task t = start(&f, saves);
    assert_int_equal(read_until(t, "'a b'\n", text, sizeof text), 0);
    assert_non_null(strstr(text, "an interactive one; to go on: srun --ddp=on,stop=USR1 "));
    assert_int_equal(WEXITSTATUS(end(t)), 75);
}

/* By the kernel, where memory is short. */
static void a_requeue_whose_child_is_killed_is_missed(void **state)
{
    char text[1024] = "";
    struct guards_facts f = facts_of(0);
    (void)state;
    f.requeues = true;
    put_scontrol("kill -9 $PPID\n", 0);
    struct task t = start(&f, saves);
    assert_int_equal(read_until(t, "not requeued: who was to ask for it was killed", text, sizeof text), 0);
    assert_int_equal(WEXITSTATUS(end(t)), 75);
}

static int find(const struct guards_facts *f, int node, char *ret_name, int ret_port[GUARDS_PORTS])
{
    (void)f;
    snprintf(ret_name, HOSTLIST_NAME_MAX + 1, "n%d", node + 1);
    memset(ret_port, 0, GUARDS_PORTS * sizeof *ret_port);
    return 0;
}

/* A step of which one task alone comes. */
static struct guards_facts not_whole(int nodes, int ranks)
{
    struct guards_facts f = facts_of(0);
    f.saves = false;
    f.stop = (struct stop_key){0};
    f.restarts = f.min_nodes = 1;
    f.is_elastic = f.is_whole = true;
    f.n_nodes = nodes;
    f.local_size = ranks;
    f.size = nodes * ranks;
    f.find = find;
    f.join_s = 0.1;
    return f;
}

/* srun would wait for tasks that have never been there, one of this node's among them. Slurm ends this guard, too: its
 * record is whole before. */
static void a_step_that_is_not_whole_is_cancelled(void **state)
{
    char text[512] = "", asked[256], record[160], look[256];
    char *with_record[] = {path_variable, record, NULL};
    struct guards_facts f = not_whole(2, 2);
    (void)state;
    f.env = with_record;
    snprintf(record, sizeof record, "DDP_RECORD=%s/record", test_folder);
    snprintf(look, sizeof look, "grep -o '\"event\": \"end\"' %s/record >>%s/asked\n", test_folder, test_folder);
    put_command("scancel", look, 0);
    struct task t = start(&f, sleeps);
    assert_int_equal(read_until(t, "3 tasks have not come, one of them on n2: ", text, sizeof text), 0);
    end(t);
    read_asked(asked, sizeof asked);
    assert_string_equal(asked, "12.3\n\"event\": \"end\"\n");
}

/* Nor is one by a part of few: most may go on. */
static void but_not_by_one_node_of_three(void **state)
{
    char text[512] = "", asked[256];
    struct guards_facts f = not_whole(3, 1);
    (void)state;
    put_command("scancel", "", 0);
    struct task t = start(&f, sleeps);
    assert_int_equal(read_until(t, "2 tasks have not come, one of them on n3: ", text, sizeof text), 0);
    assert_int_equal(read_until(t, ": this part of the step ends\n", text, sizeof text), 0);
    end(t);
    read_asked(asked, sizeof asked);
    assert_string_equal(asked, "");
}

/* Two causes, which look alike from here: ports, and a node with another plugin or none. */
static void who_cannot_be_reached_is_warned_of(void **state)
{
    static const char *const follows[] = {"nobody is told of a death there, unless those programs have ended already\n",
                                          "programs will not be started again\n"};
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        char text[512] = "";
        struct guards_facts f = facts_of(0);
        f.saves = f.ends_step = false;
        f.stop = (struct stop_key){0};
        f.restarts = restarts;
        f.is_whole = true;
        f.size = f.n_nodes = 2;
        f.find = find;
        f.join_s = 0.1;
        struct task t = start(&f, catches);
        assert_int_equal(read_until(t, follows[restarts], text, sizeof text), 0);
        assert_non_null(strstr(text, "1 of 2 guards cannot be reached ("));
        assert_non_null(strstr(text, "port_max, and the same slurm-ddp: ddp check says which node has another)"));
        kill(t.pid, SIGHUP);
        assert_int_equal(WEXITSTATUS(end(t)), 75);
    }
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_make, folder_remove)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_key_is_strict),
    cmocka_unit_test(it_comes_once_and_in_slurms_place),
    cmocka_unit_test(one_before_a_restart_is_the_end),
    cmocka_unit_test(who_does_not_catch_it_has_not_failed),
    cmocka_unit_test(who_was_killed_before_slurms_signal_is_named),
    cmocka_unit_test(slurms_signal_is_no_stop_where_a_loss_is_heard_behind_it),
    cmocka_unit_test(nor_where_the_step_ends_by_a_death),
    cmocka_unit_test(it_comes_before_the_end),
    cmocka_unit_test(a_job_that_is_shorter_than_that_is_not_stopped),
    WITH_FOLDER(an_end_that_is_not_known_is_asked),
    WITH_FOLDER(an_end_that_has_moved_is_asked_again),
    WITH_FOLDER(a_suspension_moves_the_end),
    WITH_FOLDER(an_end_that_nobody_knows_stops_nobody),
    WITH_FOLDER(who_has_saved_is_requeued),
    WITH_FOLDER(a_step_by_hand_is_told_how_to_go_on),
    WITH_FOLDER(a_requeue_whose_child_is_killed_is_missed),
    WITH_FOLDER(a_step_that_is_not_whole_is_cancelled),
    WITH_FOLDER(but_not_by_one_node_of_three),
    cmocka_unit_test(who_cannot_be_reached_is_warned_of),
};

UNIT_MAIN(tests)
