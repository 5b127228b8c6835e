#include "config.h"
#include "t/unit/spank/stopping.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "runtime/base/clock.h"

#define TOKEN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

char path_variable[128];
static char *environment[] = {path_variable, "SLURM_JOB_ID=12", "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=1",
                              "DDP_OPTION=on,stop=USR1", NULL};
static char *arguments[] = {"./train", "a b"};

struct guards_facts facts_of(int before_s)
{
    return (struct guards_facts){.rank = 0, .size = 1, .local_size = 1, .n_nodes = 1, .name = "n1", .ends_step = true,
                                 .join_s = GUARDS_JOIN_S, .stuck_s = GUARDS_STUCK_S, .idle_s = GUARDS_IDLE_S,
                                 .heed_s = 0.1, .token = TOKEN, .step = "12.3", .stop = {SIGUSR1, before_s},
                                 .stop_code = 75, .saves = true, .env = environment, .argc = 2, .argv = arguments};
}

/* ---- a task ---- */

int catches(int out)
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

int sleeps(int out)
{
    (void)!write(out, "r", 1);
    for (;;)
        pause();
    return 0;
}

static int write_on_stderr(int out, void *program)
{
    int (*const *f)(int out) = program;
    (void)out;
    return (*f)(STDERR_FILENO);
}

struct task start(const struct guards_facts *f, int program(int out))
{
    int err;
    task_facts = f;
    struct task t = task_start_heard(write_on_stderr, &program, &err);
    close(t.in);
    t.in = err;
    return t;
}

int read_until(struct task t, const char *part, char *text, size_t size)
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

int end(struct task t)
{
    int status;
    waitpid(t.pid, &status, 0);
    close(t.in);
    return status;
}

/* ---- commands ---- */

void put_command(const char *name, const char *format, long long value)
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

void put_scontrol(const char *format, long long value)
{
    put_command("scontrol", format, value);
}

void read_asked(char *buf, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/asked", test_folder);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(buf, 1, size - 1, f) : 0;
    buf[n] = 0;
    if (f)
        fclose(f);
}
