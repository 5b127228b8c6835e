#include "config.h" /* asprintf */
#include "spank/guard/record.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/base/clock.h"
#include "runtime/base/notice.h"
#include "runtime/record/goodput.h"
#include "runtime/record/line.h"
#include "runtime/record/program.h"
#include "runtime/record/write.h"
#include "runtime/sched/comment.h"
#include "runtime/sched/slurm.h"
#include "spank/guard/process.h"

#define VARIABLE "DDP_RECORD="
#define OPTION "--ddp-record="

/* ---- in the child ---- */

static void begin(struct recorder *w, const char *event, double t)
{
    recorder_begin_at(w, event, t);
    recorder_text(w, "by", "guard");
}

struct names {
    char **name;
    size_t n, room;
};

static int add_name(const char *host, void *arg)
{
    struct names *all = arg;
    if (all->n < all->room)
        all->name[all->n] = strdup(host);
    all->n += all->n < all->room && all->name[all->n];
    return 0;
}

/* The step's, spares among them: which ranks are where is not told. */
static void put_nodes(struct recorder *w, const struct guards_facts *f)
{
    size_t room = f->list && f->n_nodes > 0 ? (size_t)f->n_nodes : 0;
    struct names all = {.name = calloc(room + 1, sizeof *all.name), .room = room};
    if (all.name && room)
        hostlist_each(f->list, add_name, &all, NULL);
    recorder_texts(w, "nodes", (const char *const *)all.name, all.name ? all.n : 0);
    recorder_number(w, "node_of", NAN);
}

static void put_start(struct recorder *w, const struct guards_facts *f, const struct guard_note *n)
{
    char program[PROGRAM_NAME_MAX + 1];
    program_name(f->argc, f->argv, program);
    begin(w, "start", n->t);
    recorder_count(w, "v", RECORD_VERSION);
    recorder_job(w);
    recorder_text(w, "program", program);
    recorder_text(w, "version", PACKAGE_VERSION);
    recorder_count(w, "restart", (uint64_t)n->restart);
    recorder_count(w, "ranks", (uint64_t)n->size);
    put_nodes(w, f);
    recorder_text(w, "device", "");
    recorder_time(w, "began_t", n->t);
}

static void put_failure(struct recorder *w, const struct guard_note *n)
{
    char text[NOTICE_TEXT_MAX + 1];
    begin(w, "failure", n->t);
    recorder_text(w, "text", death_say(&n->death, text, sizeof text));
    recorder_count(w, "rank", (uint64_t)n->death.rank);
    recorder_text(w, "node", n->death.node);
}

static void put(struct recorder *w, const struct guards_facts *f, const struct guard_note *n)
{
    switch (n->event) {
    case GUARD_RECORD_START:
        put_start(w, f, n);
        return;
    case GUARD_RECORD_FAILURE:
        put_failure(w, n);
        break;
    case GUARD_RECORD_STOP:
        begin(w, "stop", n->t);
        recorder_number(w, "step", NAN);
        recorder_text(w, "signal", stop_key_name(f->stop.signal) + strlen("SIG"));
        break;
    case GUARD_RECORD_END:
        begin(w, "end", n->t);
        recorder_number(w, "step", NAN);
        recorder_text(w, "how", n->how);
        break;
    }
    recorder_count(w, "restart", (uint64_t)n->restart);
}

/* The user's own comment may be long, or Slurm's commands not be there: that is nothing to talk about. */
static void say_goodput(const char *path)
{
    char id[SLURM_ID_MAX + 1], text[GOODPUT_TEXT_MAX];
    struct record all;
    ddp_error_t e;
    if (record_read(path, &all, &e) < 0) {
        process_say("ddp: warning: the goodput is not known: %s", e.text);
        return;
    }
    const struct record_line *last = &all.line[all.n_lines - 1];
    if (last->event != RECORD_END || !last->is_guards) /* the program has said it */
        return;
    struct goodput g = goodput_of(&all, NULL, NULL);
    process_say("ddp: %s", goodput_text(&g, GOODPUT_ALL, text));
    if (slurm_job_id(id))
        comment_set(id, goodput_text(&g, GOODPUT_COST, text), deadline_in(COMMENT_PATIENCE_S), NULL);
}

/* A byte says that it went wrong, so that there is one warning. */
static void write_notes(const void *record, int out)
{
    const struct guard_record *r = record;
    struct recorder w;
    ddp_error_t e;
    int rc = recorder_open(&w, r->path, &e);
    for (int i = 0; rc == 0 && i < r->n_notes; i++) {
        put(&w, r->f, &r->note[i]);
        rc = recorder_end(&w, &e);
    }
    recorder_close(&w);
    if (rc < 0) {
        process_say("ddp: warning: the guard: %s", e.text);
        (void)!write(out, "", 1);
    } else if (r->has_ended) {
        say_goodput(r->path);
    }
}

/* ---- in the guard ---- */

/* As libddp finds it: an argument goes before the variable. */
static const char *find_path(const struct guards_facts *f)
{
    const char *path = NULL;
    for (char **e = f->env ? f->env : environ; e && *e; e++)
        if (begins(*e, VARIABLE))
            path = *e + strlen(VARIABLE);
    for (int i = 1; i < f->argc; i++)
        if (begins(f->argv[i], OPTION))
            path = f->argv[i] + strlen(OPTION);
    return path && *path ? path : NULL;
}

/* `ddp check`, before a job, is no run. */
static bool is_check(const struct guards_facts *f)
{
    char program[PROGRAM_NAME_MAX + 1];
    program_name(f->argc, f->argv, program);
    return !strcmp(program, "ddp check");
}

/* Between components, whose trees do not know each other, rank 0's. */
static bool is_candidate(const struct guards_facts *f)
{
    return !is_check(f) && f->local_rank == 0 && (f->is_whole || f->rank == 0);
}

/* The caller frees it; NULL: there is none, or no memory. */
static char *make_path(const struct guards_facts *f)
{
    const char *path = find_path(f);
    char here[PATH_MAX], *ret = NULL;
    if (!path || !is_candidate(f))
        return NULL;
    if (*path == '/')
        return strdup(path);
    return getcwd(here, sizeof here) && asprintf(&ret, "%s/%s", here, path) >= 0 ? ret : NULL;
}

void guard_record_open(struct guard_record *r, const struct guards_facts *f)
{
    *r = (struct guard_record){.f = f, .path = make_path(f)};
    guard_child_init(&r->child);
}

static void begin_child(struct guard_record *r)
{
    double within_s = GUARD_RECORD_WRITE_S + (r->has_ended ? COMMENT_PATIENCE_S : 0);
    guard_child_begin(&r->child, r->f->env, write_notes, r, within_s);
    r->n_notes = 0; /* the child has them; without memory they are lost */
}

void guard_record_begin(struct guard_record *r, int restart)
{
    r->restart = restart;
}

static void add(struct guard_record *r, struct guard_note n)
{
    if (!r->path || r->n_notes == GUARD_RECORD_NOTES)
        return;
    n.t = recorder_now();
    n.restart = r->restart;
    r->note[r->n_notes++] = n;
    if (!r->child.pid)
        begin_child(r);
}

void guard_record_start(struct guard_record *r, int size)
{
    add(r, (struct guard_note){.event = GUARD_RECORD_START, .size = size});
}

void guard_record_stop(struct guard_record *r)
{
    add(r, (struct guard_note){.event = GUARD_RECORD_STOP});
}

void guard_record_failure(struct guard_record *r, const struct death *d)
{
    add(r, (struct guard_note){.event = GUARD_RECORD_FAILURE, .death = *d});
}

void guard_record_end(struct guard_record *r, const char *how)
{
    if (r->has_ended)
        return;
    r->has_ended = true;
    add(r, (struct guard_note){.event = GUARD_RECORD_END, .how = how});
}

void guard_record_requeue(const struct guard_record *r, const char *note)
{
    struct recorder w;
    if (!r->path || recorder_open(&w, r->path, NULL) < 0)
        return;
    begin(&w, "requeue", recorder_now());
    recorder_count(&w, "restart", (uint64_t)r->restart);
    recorder_text(&w, "note", note);
    recorder_end(&w, NULL);
    recorder_close(&w);
}

int guard_record_fd(const struct guard_record *r)
{
    return r->child.in;
}

int guard_record_wait_ms(const struct guard_record *r)
{
    return r->child.pid ? deadline_left_ms(r->child.until) : -1;
}

void guard_record_step(struct guard_record *r)
{
    char byte;
    bool is_late;
    if (!r->child.pid)
        return;
    bool is_bad = guard_child_hear(&r->child, &byte, 1, &is_late);
    if (is_late && !r->has_ended) /* else it is Slurm's controller that does not answer, or worth no line any more */
        process_say("ddp: warning: the guard: nothing could be written to record %.160s within %d s", r->path,
                    GUARD_RECORD_WRITE_S);
    if (is_bad) {
        free(r->path);
        r->path = NULL;
        r->n_notes = 0;
    }
    if (!r->child.pid && r->n_notes)
        begin_child(r);
}

bool guard_record_is_busy(const struct guard_record *r)
{
    return r->child.pid > 0;
}
