/* here.c - finds ranks by what stands in /proc: a rank's program is the first process, from the top, that has the
 * variables of its task. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/io.h"
#include "runtime/base/num.h"
#include "runtime/base/plain.h"
#include "runtime/cli/ps/ps.h"

#define SAMPLE_MS 300
#define PROC_MAX (1u << 20) /* bytes of a file in /proc */

struct process {
    struct ps_rank r;
    long parent;
    uint64_t seen_ns; /* clock_ns, at which it had used: */
    double cpu_s;
};

struct scan {
    struct process *of; /* [n] */
    size_t n, room;
};

/* /proc/PID/NAME, which says no size, with a null byte behind it; malloc. */
static char *read_proc(long pid, const char *name, size_t *ret_n)
{
    char path[64], *text = malloc(PROC_MAX + 1);
    snprintf(path, sizeof path, "/proc/%ld/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = text && fd >= 0 ? io_read_up_to(fd, text, PROC_MAX) : -1;
    io_close(fd);
    if (n < 0) {
        free(text);
        return NULL;
    }
    text[n] = 0;
    *ret_n = (size_t)n;
    return text;
}

/* All four uids are this user's: what another user has started, a setuid program, has his variables, memory and
 * descriptors. */
static bool is_own(long pid)
{
    size_t n;
    unsigned uid[4], mine = geteuid();
    char *text = read_proc(pid, "status", &n), *at = text ? strstr(text, "\nUid:") : NULL;
    bool is = at && sscanf(at, "\nUid: %u %u %u %u", &uid[0], &uid[1], &uid[2], &uid[3]) == 4;
    for (int i = 0; is && i < 4; i++)
        is = uid[i] == mine;
    free(text);
    return is;
}

static const char *find(const char *environ, size_t n, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = environ; p < environ + n; p += strlen(p) + 1)
        if (!strncmp(p, name, len) && p[len] == '=')
            return p + len + 1;
    return NULL;
}

/* "JOB.STEP" and the rank; false: it is no rank's. */
static bool read_task(long pid, struct ps_rank *r)
{
    size_t n;
    char *env = read_proc(pid, "environ", &n);
    if (!env)
        return false;
    const char *job = find(env, n, "SLURM_JOB_ID"), *step = find(env, n, "SLURM_STEP_ID");
    const char *rank = find(env, n, "SLURM_PROCID"), *node = find(env, n, "SLURMD_NODENAME");
    const char *restarts = find(env, n, "DDP_RESTART"), *run = find(env, n, "DDP_BOOT_ADDR"); /* ddp run's, of each */
    const char *set = find(env, n, "DDP_SET"); /* which begins so; with spares it is not the task's number */
    char own[16];
    if (set && sscanf(set, "RANK=%15[0-9]", own) == 1)
        rank = own;
    if (run)
        rank = find(env, n, "RANK");
    bool is_rank = rank && num_int(rank, 0, 1 << 30, &r->rank) == 0 && (run || (job && step));
    if (run)
        snprintf(r->step, sizeof r->step, "run-%04x", (unsigned)(hash_text(run) & 0xffff));
    else if (is_rank)
        snprintf(r->step, sizeof r->step, "%.15s.%.15s", job, step);
    if (node)
        snprintf(r->node, sizeof r->node, "%s", node);
    else if (gethostname(r->node, sizeof r->node - 1) < 0)
        strcpy(r->node, "-");
    plain_line(r->step); /* a program with root's rights may still show what another user gave to sudo, say */
    plain_line(r->node);
    if (!restarts || num_int(restarts, 0, 1 << 30, &r->restarts) < 0)
        r->restarts = 0;
    free(env);
    return is_rank;
}

/* proc(5), stat: state, parent, CPU time and resident pages. */
static bool read_stat(struct process *p)
{
    unsigned long user, sys;
    long pages;
    size_t n;
    char *text = read_proc(p->r.pid, "stat", &n);
    char *after = text ? strrchr(text, ')') : NULL;
    bool is_read = after && sscanf(after, ") %c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d "
                                   "%*d %*u %*u %ld", &p->r.state, &p->parent, &user, &sys, &pages) == 5;
    if (is_read) {
        p->cpu_s = (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
        p->r.mib = (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
    }
    free(text);
    return is_read;
}

static void read_command(struct ps_rank *r)
{
    size_t n;
    char *text = read_proc(r->pid, "cmdline", &n);
    for (size_t i = 0; text && i + 1 < n; i++)
        if (!text[i])
            text[i] = ' ';
    snprintf(r->command, sizeof r->command, "%s", text ? text : "");
    plain_line(r->command);
    free(text);
}

static bool is_wanted(const char *step, const char *want)
{
    size_t n = want ? strlen(want) : 0;
    return !want || (!strncmp(step, want, n) && (!step[n] || (step[n] == '.' && !strchr(want, '.'))));
}

static int add(struct scan *s, long pid, const char *want)
{
    struct process p = {.r.pid = pid, .seen_ns = clock_ns()};
    if (!is_own(pid) || !read_task(pid, &p.r) || !is_wanted(p.r.step, want) || !read_stat(&p))
        return 0;
    if (s->n == s->room) {
        size_t room = 2 * s->room + 64;
        struct process *of = realloc(s->of, room * sizeof *of);
        if (!of)
            return -1;
        s->of = of;
        s->room = room;
    }
    s->of[s->n++] = p;
    return 0;
}

static int scan(struct scan *s, const char *want)
{
    DIR *d = opendir("/proc");
    int rc = d ? 0 : -1;
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        struct stat st;
        long pid = isdigit((unsigned char)e->d_name[0]) ? strtol(e->d_name, NULL, 10) : 0;
        if (pid > 0 && pid != getpid() && fstatat(dirfd(d), e->d_name, &st, 0) == 0 && st.st_uid == geteuid())
            rc = add(s, pid, want);
    }
    if (d)
        closedir(d);
    return rc;
}

static bool has_parent_in(const struct scan *s, const struct process *p)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->of[i].r.pid == p->parent && s->of[i].r.rank == p->r.rank && !strcmp(s->of[i].r.step, p->r.step))
            return true;
    return false;
}

/* Of a program that another one runs (a shell's python) too: libddp is in one of them. */
static void find_flight(const struct scan *s, struct ps_rank *r)
{
    for (size_t i = 0; !r->has_flight && i < s->n; i++)
        if (s->of[i].r.rank == r->rank && !strcmp(s->of[i].r.step, r->step))
            r->has_flight = flight_read((pid_t)s->of[i].r.pid, &r->flight);
}

/* Of all processes of the rank, that first which has computed most. */
static void find_call(const struct scan *s, struct ps_rank *r)
{
    long pid[PS_PROCESSES_MAX];
    double cpu_s = -1;
    size_t n = 0;
    for (size_t i = 0; i < s->n && n < PS_PROCESSES_MAX; i++) {
        if (s->of[i].r.rank != r->rank || strcmp(s->of[i].r.step, r->step) != 0)
            continue;
        pid[n++] = s->of[i].r.pid;
        if (s->of[i].cpu_s <= cpu_s)
            continue;
        cpu_s = s->of[i].cpu_s;
        pid[n - 1] = pid[0];
        pid[0] = s->of[i].r.pid;
    }
    ps_find_call(pid, n, !r->has_flight, r->waits);
}

/* Cores that all processes of the rank use, and what memory. */
static void add_up(const struct scan *s, struct ps_rank *r)
{
    r->cpu = r->mib = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct process now = s->of[i];
        if (now.r.rank != r->rank || strcmp(now.r.step, r->step) != 0 || !read_stat(&now))
            continue;
        r->cpu += (now.cpu_s - s->of[i].cpu_s) / ((double)(clock_ns() - now.seen_ns) / 1e9);
        r->mib += now.r.mib;
    }
}

int ps_here(const char *step, struct ps_list *ret)
{
    struct scan s = {0};
    int rc = scan(&s, step);
    *ret = (struct ps_list){.rank = rc < 0 ? NULL : calloc(s.n + 1, sizeof *ret->rank)};
    poll(NULL, 0, SAMPLE_MS);
    for (size_t i = 0; ret->rank && i < s.n; i++) {
        if (has_parent_in(&s, &s.of[i]))
            continue;
        struct ps_rank *r = &ret->rank[ret->n++];
        *r = s.of[i].r;
        read_command(r);
        find_flight(&s, r);
        add_up(&s, r);
    }
    for (size_t i = 0; i < ret->n; i++) /* which takes a while, unlike the above */
        if (!ret->rank[i].has_flight || ret->rank[i].flight.waits_for == FLIGHT_NOBODY)
            find_call(&s, &ret->rank[i]);
    free(s.of);
    return ret->rank ? 0 : -1;
}
