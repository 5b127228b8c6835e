/* read.c - a record's lines, and which of its steps were done again. */
#include "config.h" /* memmem */
#include "runtime/record/read.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/record/read_impl.h"

/* ---- lines ---- */

struct lines {
    FILE *f;
    char *buf; /* of RECORD_LINE_MAX + 2 bytes: a line, its newline, one more */
    size_t from, to;
    size_t number;
};

/* The next line in *ret, without its newline. 1; 0: the file has ended; -1: it is too long, or reading fails.
 * *ret_is_whole: it had a newline. */
static int next_line(struct lines *l, char **ret, size_t *ret_n, bool *ret_is_whole, ddp_error_t *errp)
{
    char *end;
    while (!(end = memchr(l->buf + l->from, '\n', l->to - l->from)) && l->to - l->from <= RECORD_LINE_MAX) {
        memmove(l->buf, l->buf + l->from, l->to - l->from);
        l->to -= l->from;
        l->from = 0;
        size_t n = fread(l->buf + l->to, 1, RECORD_LINE_MAX + 2 - l->to, l->f);
        l->to += n;
        if (n == 0)
            break;
    }
    l->number++;
    if (ferror(l->f))
        return error_errno(errp, "reading");
    size_t n = (end ? (size_t)(end - l->buf) : l->to) - l->from;
    if (n > RECORD_LINE_MAX)
        return error_set(errp, DDP_E_DATA, E2BIG, "longer than %u bytes: is this a record?", RECORD_LINE_MAX);
    *ret = l->buf + l->from;
    *ret_n = n;
    *ret_is_whole = end != NULL;
    l->from += n + (end != NULL);
    return n > 0 || end;
}

/* A start that stands behind the rest of a line that was cut: it, or NULL. */
static char *find_start(char *text, size_t n)
{
    static const char begin[] = "{\"event\"";
    for (size_t i = n; i-- > 1;)
        if (n - i >= sizeof begin - 1 && !memcmp(text + i, begin, sizeof begin - 1))
            return text + i;
    return NULL;
}

static bool take_start(struct record *r, char *text, size_t n)
{
    char *start = find_start(text, n);
    size_t n_starts = r->n_starts;
    return start && record_add_line(r, start, n - (size_t)(start - text), NULL) == 0 && r->n_starts > n_starts;
}

static int fail(ddp_error_t *errp, const ddp_error_t *e, const char *name, size_t line)
{
    if (errp)
        *errp = *e;
    return error_prefix(errp, "%.160s:%zu", name, line);
}

/* Whoever writes that has opened the file for it, and ended a line that was cut. */
static bool is_guards(const char *text, size_t n)
{
    static const char by[] = "\"by\"";
    return memmem(text, n, by, sizeof by - 1) != NULL;
}

/* Lines that are no JSON may have been cut by kills. They were, where the last one is the file's and has no end, or
 * where the start of the next generation is on it or follows it, or a guard's line follows; else `cut`, the first one's
 * error, is the record's. Between them, and behind them, two who opened the file at once leave empty lines. */
static int read_all(struct lines *l, const char *name, struct record *r, ddp_error_t *errp)
{
    ddp_error_t cut = {0}, e = {0};
    char *text = NULL;
    size_t n = 0, cut_at = 0;
    bool is_whole = false;
    int rc;
    while ((rc = next_line(l, &text, &n, &is_whole, &e)) > 0) {
        size_t n_starts = r->n_starts;
        int added = n ? record_add_line(r, text, n, &e) : 1;
        bool is_cut = added < 0 && e.code == RECORD_NO_JSON;
        if (cut.domain && n && !is_cut && r->n_starts == n_starts && !is_guards(text, n))
            return fail(errp, &cut, name, cut_at);
        if (added < 0 && !is_cut)
            return fail(errp, &e, name, l->number);
        r->n_cut += is_cut;
        if (is_cut ? !is_whole || take_start(r, text, n) : n > 0) {
            cut.domain = 0;
        } else if (is_cut && !cut.domain) {
            cut = e;
            cut_at = l->number;
        }
    }
    if (rc < 0)
        return fail(errp, &e, name, l->number);
    if (cut.domain)
        return fail(errp, &cut, name, cut_at);
    return r->n_starts ? 0 : error_set(errp, DDP_E_DATA, EINVAL, "%.160s has no line \"start\": is it a record, as "
                                       "--ddp-record writes it?", name);
}

/* ---- the last run ---- */

/* The start's programs have gone on from a checkpoint. */
static bool has_resumed(const struct record *r, size_t line)
{
    for (size_t i = line + 1; i < r->n_lines && r->line[i].event != RECORD_START; i++)
        if (r->line[i].is_begin)
            return r->line[i].step > 0;
    return false;
}

/* What lies before the last run goes. Where it ran in the same allocation, the last run's time begins with itself. */
static void keep_last_run(struct record *r)
{
    size_t first = 0;
    for (size_t i = 1; i < r->n_lines; i++) {
        const struct record_line *l = &r->line[i];
        const struct record_start *s = &r->start[l->at];
        if (l->event != RECORD_START || record_is_same_step(s - 1, s) ||
            (record_is_same_job(s - 1, s) && has_resumed(r, i)))
            continue;
        first = i;
        r->n_earlier++;
    }
    if (!first)
        return;
    struct record_start *s = &r->start[r->line[first].at];
    if (record_is_same_job(s - 1, s))
        s->alloc_t = NAN;
    record_drop(r, first);
}

/* ---- the step of each line ---- */

static void carry_steps(struct record *r)
{
    for (size_t i = 0; i < r->n_lines; i++) {
        struct record_line *l = &r->line[i];
        r->has_steps |= l->has_step;
        if (!l->has_step)
            l->step = r->step;
        else if (l->event != RECORD_CHECKPOINT)
            r->step = l->step;
    }
}

/* ---- what was done again ---- */

static bool ended(const struct record *r, const struct record_line *l, const char *how)
{
    return l->event == RECORD_END && !strcmp(r->other[l->at].text, how);
}

/* Up to which step the work is kept when the record ends: UINT64_MAX, unless the last that is known is a failure; then
 * up to what was saved, or begun with, before it. A guard's end may be a stop's that came behind a failure. */
static uint64_t kept_at_end(const struct record *r)
{
    bool has_failed = false, is_found = false;
    uint64_t saved = 0;
    for (size_t i = r->n_lines; i-- > 0;) {
        const struct record_line *l = &r->line[i];
        if (l->event == RECORD_FAILURE || ended(r, l, "failed")) {
            has_failed = true;
        } else if (!has_failed && (l->event == RECORD_INTERVAL || (l->event == RECORD_END && !l->is_guards))) {
            return UINT64_MAX;
        } else if (l->event == RECORD_CHECKPOINT || l->is_begin) {
            is_found = true;
            saved = l->step > saved ? l->step : saved;
        } else if (l->event == RECORD_START && is_found) {
            break;
        }
    }
    return has_failed ? saved : UINT64_MAX;
}

/* A run that is done keeps what it did, whatever another writes behind it. */
static void mark_kept(struct record *r)
{
    uint64_t kept_to = kept_at_end(r);
    for (size_t i = r->n_lines; i-- > 0;) {
        struct record_line *l = &r->line[i];
        if (ended(r, l, "done"))
            kept_to = UINT64_MAX;
        l->kept_to = kept_to;
        if (l->is_begin && l->step < kept_to)
            kept_to = l->step;
    }
}

/* ---- the file ---- */

int record_read_stream(FILE *f, const char *name, struct record *ret, ddp_error_t *errp)
{
    struct lines l = {.f = f, .buf = malloc(RECORD_LINE_MAX + 2)};
    struct record r = {0};
    int rc = l.buf ? read_all(&l, name, &r, errp) : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a line");
    free(l.buf);
    if (rc < 0) {
        record_clear(&r);
        return -1;
    }
    keep_last_run(&r);
    carry_steps(&r);
    mark_kept(&r);
    *ret = r;
    return 0;
}

int record_read(const char *path, struct record *ret, ddp_error_t *errp)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return error_errno(errp, "%.160s", path);
    int rc = record_read_stream(f, path, ret, errp);
    fclose(f);
    return rc;
}

const char *record_rank_name(const struct record *r, int rank, char *buf, size_t size)
{
    for (size_t i = r->n_starts; i-- > 0;) {
        const struct record_start *s = &r->start[i];
        if (rank >= 0 && rank < s->n_ranks && s->node_of) {
            snprintf(buf, size, "rank %d (%s)", rank, s->node[s->node_of[rank]]);
            return buf;
        }
    }
    snprintf(buf, size, "rank %d", rank);
    return buf;
}
