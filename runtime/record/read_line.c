/* read_line.c - one line of a record: a table of members for each event. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json_read.h"
#include "runtime/record/read_impl.h"

/* ---- members ---- */

#define AT(s, field) offsetof(struct record_##s, field)

static const struct record_member start_members[] = {
    {"alloc_t", MEMBER_SECONDS, AT(start, alloc_t), false}, {"began_t", MEMBER_SECONDS, AT(start, began_t), false},
    {"job", MEMBER_TEXT, AT(start, job), false},            {"program", MEMBER_TEXT, AT(start, program), false},
    {"version", MEMBER_TEXT, AT(start, version), false},    {"device", MEMBER_TEXT, AT(start, device), false},
    {"restart", MEMBER_INT, AT(start, restart), false},     {"requeue", MEMBER_INT, AT(start, requeue), false},
    {"ranks", MEMBER_INT, AT(start, n_ranks), true},        {NULL, 0, 0, false},
};
static const struct record_member train_members[] = {
    {"steps", MEMBER_COUNT, AT(train, steps), false},
    {"batch", MEMBER_COUNT, AT(train, batch), false},
    {"accumulation", MEMBER_COUNT, AT(train, accumulation), false},
    {"global_batch", MEMBER_COUNT, AT(train, global_batch), false},
    {"parameters", MEMBER_COUNT, AT(train, parameters), false},
    {"item", MEMBER_TEXT, AT(train, item), false},
    {"flops_per_item", MEMBER_REAL, AT(train, flops_per_item), false},
    {"peak_flops", MEMBER_REAL, AT(train, peak_flops), false},
    {"end_t", MEMBER_SECONDS, AT(train, end_t), false},
    {NULL, 0, 0, false},
};
static const struct record_member interval_members[] = {
    {"steps", MEMBER_COUNT, AT(interval, n_steps), true},
    {"items", MEMBER_COUNT, AT(interval, items), false},
    {"skipped", MEMBER_COUNT, AT(interval, skipped), false},
    {"wall_s", MEMBER_SECONDS, AT(interval, wall_s), true},
    {"loss", MEMBER_REAL, AT(interval, loss), false},
    {"lr", MEMBER_REAL, AT(interval, lr), false},
    {"grad_norm", MEMBER_REAL, AT(interval, grad_norm), false},
    {"hidden_s", MEMBER_SECONDS, AT(interval, hidden_s), false},
    {"baseline_s", MEMBER_SECONDS, AT(interval, baseline_s), false},
    {"efficiency", MEMBER_REAL, AT(interval, efficiency), false},
    {"barrier_s", MEMBER_SECONDS, AT(interval, barrier_s), false},
    {NULL, 0, 0, false},
};
/* The rest share a struct; what an event calls its text is below. */
static const struct record_member other_members[] = {
    {"node", MEMBER_TEXT, AT(other, node), false},
    {"rank", MEMBER_INT, AT(other, rank), false},
    {"took_s", MEMBER_SECONDS, AT(other, took_s), false},
    {"loss", MEMBER_REAL, AT(other, loss), false},
    {"bytes", MEMBER_REAL, AT(other, bytes), false},
    {"stood_still_s", MEMBER_SECONDS, AT(other, stood_still_s), false},
    {"copied_s", MEMBER_SECONDS, AT(other, copied_s), false},
    {"written_s", MEMBER_SECONDS, AT(other, written_s), false},
    {"factor", MEMBER_REAL, AT(other, factor), false},
    {NULL, 0, 0, false},
};
static const char *const text_name[RECORD_EVENTS] = {
    [RECORD_RESUME] = "from", [RECORD_CHECKPOINT] = "path", [RECORD_STOP] = "signal",
    [RECORD_REQUEUE] = "note", [RECORD_FAILURE] = "text", [RECORD_END] = "how", [RECORD_SLOW] = "of",
};

/* ---- start ---- */

static void clear_start(struct record_start *s)
{
    for (int i = 0; s->node && i < s->n_nodes; i++)
        free(s->node[i]);
    free(s->node);
    free(s->node_of);
    free(s->job);
    free(s->program);
    free(s->version);
    free(s->device);
}

static int read_nodes(const json_t *line, struct record_start *s, ddp_error_t *errp)
{
    const json_t *nodes = json_object_get(line, "nodes"), *of = json_object_get(line, "node_of");
    size_t n = json_array_size(nodes);
    bool is_told = json_is_array(of); /* where each rank is; else spare nodes may be among them */
    if (is_told && (n > (size_t)s->n_ranks || json_array_size(of) != (size_t)s->n_ranks))
        return record_bad(errp, "start", "nodes or node_of", "has an impossible");
    s->node = calloc(n + 1, sizeof *s->node);
    s->node_of = is_told ? calloc((size_t)s->n_ranks, sizeof *s->node_of) : NULL;
    if (!s->node || (is_told && !s->node_of))
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu nodes", n);
    for (; (size_t)s->n_nodes < n; s->n_nodes++)
        if (!record_store(json_array_get(nodes, (size_t)s->n_nodes), MEMBER_TEXT, &s->node[s->n_nodes]))
            return record_bad(errp, "start", "nodes", "has an impossible");
    for (int r = 0; s->node_of && r < s->n_ranks; r++)
        if (!record_store(json_array_get(of, (size_t)r), MEMBER_INT, &s->node_of[r]) || s->node_of[r] >= s->n_nodes)
            return record_bad(errp, "start", "node_of", "has an impossible");
    return 0;
}

bool record_is_same_job(const struct record_start *a, const struct record_start *b)
{
    size_t n = strcspn(a->job, ".");
    return n == strcspn(b->job, ".") && !memcmp(a->job, b->job, n);
}

bool record_is_same_step(const struct record_start *a, const struct record_start *b)
{
    return *b->job && record_is_same_job(a, b) && (b->requeue > a->requeue || !strcmp(a->job, b->job));
}

static int read_start(struct record *r, const json_t *line, ddp_error_t *errp)
{
    struct record_start *s = &r->start[r->n_starts];
    const json_t *v = json_object_get(line, "v");
    *s = (struct record_start){0};
    if (!json_is_integer(v) || json_integer_value(v) != RECORD_VERSION)
        return error_set(errp, DDP_E_DATA, ENOTSUP, "a record of version %lld, and this software reads %d: use the one "
                         "that wrote it, or a newer one", (long long)json_integer_value(v), RECORD_VERSION);
    int rc = record_members(line, "start", start_members, s, errp);
    if (rc == 0 && (s->n_ranks < 1 || s->n_ranks > RECORD_RANKS_MAX))
        rc = error_set(errp, DDP_E_DATA, E2BIG, "%d ranks: at least 1 and at most %d are read", s->n_ranks,
                       RECORD_RANKS_MAX);
    if (rc == 0)
        rc = read_nodes(line, s, errp);
    if (rc == 0 && r->n_starts && !record_is_same_step(s - 1, s))
        record_ranks_clear(&r->ranks);
    if (rc == 0 && record_ranks_grow(&r->ranks, s->n_ranks) < 0)
        rc = error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %d ranks", s->n_ranks);
    if (rc < 0)
        clear_start(s);
    return rc;
}

/* ---- interval ---- */

/* x[0..n_ranks) of member `name`, NAN for a rank that is not known; *ret NULL where none is told. The caller frees. */
static int read_per_rank(const json_t *line, const char *name, int n_ranks, double **ret, ddp_error_t *errp)
{
    const json_t *list = json_object_get(line, name);
    *ret = NULL;
    if (!list || json_is_null(list) || json_array_size(list) == 0)
        return 0;
    double *x = json_array_size(list) == (size_t)n_ranks ? calloc((size_t)n_ranks, sizeof *x) : NULL;
    for (int r = 0; x && r < n_ranks; r++) {
        const json_t *v = json_array_get(list, (size_t)r);
        x[r] = json_is_null(v) ? NAN : json_number_value(v);
        if (!json_is_null(v) && !(json_is_number(v) && x[r] >= 0 && x[r] <= 1e18)) {
            free(x);
            x = NULL;
        }
    }
    *ret = x;
    return x ? 0 : record_bad(errp, "interval", name, "has not a number for each rank as");
}

/* The k-th smallest of x[0..n), which it sorts partly. */
static double select_nth(double *x, int n, int k)
{
    for (int low = 0, high = n - 1; low < high;) {
        double pivot = x[low + (high - low) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i <= j) {
                double swap = x[i];
                x[i++] = x[j];
                x[j--] = swap;
            }
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return x[k];
}

/* Of ranks that are all known, and of which one has something. */
static bool can_be_compared(const double *x, int n)
{
    double most = 0;
    bool are_known = x;
    for (int r = 0; are_known && r < n; r++) {
        are_known = isfinite(x[r]);
        most = fmax(most, x[r]);
    }
    return are_known && most > 0;
}

static void find_slowest(struct record_interval *v, double *compute_s, int n)
{
    for (int r = 0; compute_s && r < n; r++)
        if (v->slowest < 0 || compute_s[r] > v->slowest_s) {
            v->slowest = r;
            v->slowest_s = compute_s[r];
        }
    if (compute_s)
        v->compute_s = select_nth(compute_s, n, (n - 1) / 2);
}

static int read_ranks(struct record *r, const json_t *line, struct record_interval *v, uint64_t step, ddp_error_t *errp)
{
    static const char *const name[3] = {"compute_s", "exposed_s", "memory_bytes"};
    int n = r->start[r->n_starts - 1].n_ranks, rc = 0;
    double *x[3] = {NULL, NULL, NULL};
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = read_per_rank(line, name[i], n, &x[i], errp);
    for (int i = 0; i < 2; i++)
        if (!can_be_compared(x[i], n)) {
            free(x[i]);
            x[i] = NULL;
        }
    if (rc == 0 && record_ranks_add(&r->ranks, n, x[0], x[1], x[2], step, v->n_steps) < 0)
        rc = error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %d ranks", n);
    for (int i = 0; rc == 0 && x[2] && i < n; i++)
        v->memory_bytes = fmax(v->memory_bytes, x[2][i]);
    if (rc == 0)
        find_slowest(v, x[0], n);
    for (int i = 0; i < 3; i++)
        free(x[i]);
    return rc;
}

static int read_interval(struct record *r, const json_t *line, uint64_t step, ddp_error_t *errp)
{
    struct record_interval *v = &r->interval[r->n_intervals];
    const json_t *parts = json_object_get(line, "parts");
    *v = (struct record_interval){.slowest = -1, .memory_bytes = NAN, .compute_s = NAN, .slowest_s = NAN};
    if (record_members(line, "interval", interval_members, v, errp) < 0)
        return -1;
    for (int p = 0; p < RECORD_PARTS; p++) {
        const json_t *part = json_object_get(parts, record_part_name(p));
        if (part && !json_is_null(part) && !record_store(part, MEMBER_SECONDS, &v->part_s[p]))
            return record_bad(errp, "interval", "parts", "has impossible");
        if (part && !json_is_null(part))
            v->parts_told |= 1u << p;
    }
    return read_ranks(r, line, v, step, errp);
}

/* ---- any line ---- */

static void clear_other(struct record_other *o)
{
    free(o->text);
    free(o->node);
}

static int read_other(struct record *r, const json_t *line, enum record_event event, ddp_error_t *errp)
{
    struct record_other *o = &r->other[r->n_others];
    *o = (struct record_other){0};
    struct record_member text[2] = {{text_name[event] ? text_name[event] : "", MEMBER_TEXT, AT(other, text), false}};
    if (record_members(line, record_event_name(event), text, o, errp) == 0 &&
        record_members(line, record_event_name(event), other_members, o, errp) == 0)
        return 0;
    clear_other(o);
    return -1;
}

static int read_train(struct record *r, const json_t *line, ddp_error_t *errp)
{
    struct record_train *t = &r->train[r->n_trains];
    *t = (struct record_train){0};
    if (record_members(line, "train", train_members, t, errp) == 0)
        return 0;
    free(t->item);
    return -1;
}

/* Room for one more of *list[0..n); room doubles at powers of two. */
static bool make_room(void *list, size_t n, size_t size)
{
    void **at = list;
    if (n & (n - 1))
        return true;
    void *new = realloc(*at, (n ? 2 * n : 1) * size);
    if (new)
        *at = new;
    return new != NULL;
}

static size_t *count_of(struct record *r, enum record_event event)
{
    return event == RECORD_START      ? &r->n_starts
           : event == RECORD_TRAIN    ? &r->n_trains
           : event == RECORD_INTERVAL ? &r->n_intervals
                                      : &r->n_others;
}

/* ---- two writers ---- */

static bool is_same_generation(const struct record_start *a, const struct record_start *b)
{
    return a->restart == b->restart && a->requeue == b->requeue && !strcmp(a->job, b->job);
}

/* A start has been read behind the last one. True: they are of one generation, of which one of two writers has told
 * before; what the program has told is what stays, in the first one's place. */
static bool join_starts(struct record *r, bool is_guards)
{
    if (!r->n_starts)
        return false;
    struct record_start *new = &r->start[r->n_starts], *old = new - 1;
    struct record_line *begin = &r->line[r->last_begin];
    if (begin->is_guards == is_guards || !is_same_generation(old, new))
        return false;
    if (is_guards) {
        clear_start(new);
        return true;
    }
    clear_start(old);
    *old = *new;
    begin->is_guards = false;
    return true;
}

static bool is_told_twice(enum record_event event)
{
    return event == RECORD_STOP || event == RECORD_REQUEUE || event == RECORD_FAILURE || event == RECORD_END;
}

/* True: of this generation another writer has told the same, or the guard is at another one. */
static bool is_told(const struct record *r, const json_t *line, const struct record_line *l)
{
    if (!r->n_starts || !is_told_twice(l->event))
        return false;
    if (l->is_guards && json_integer_value(json_object_get(line, "restart")) != r->start[r->n_starts - 1].restart)
        return true;
    unsigned told_by_other = l->event == RECORD_FAILURE ? 0 : l->is_guards ? r->told : r->told_by_guard;
    return (told_by_other | (l->is_guards ? r->told_by_guard : 0)) >> l->event & 1;
}

/* A failure has been read of which the other writer has told in this generation: both are one, as of when it was first
 * told. The guard has seen the process end and knows the cause; the program knows the step. */
static bool join_failures(struct record *r, const struct record_line *l)
{
    unsigned told_by_other = l->is_guards ? r->told : r->told_by_guard;
    if (l->event != RECORD_FAILURE || !(told_by_other >> RECORD_FAILURE & 1))
        return false;
    struct record_line *first = &r->line[r->n_lines - 1];
    while (first->event != RECORD_FAILURE)
        first--;
    struct record_other *new = &r->other[r->n_others], *old = &r->other[first->at], swap = *old;
    if (l->is_guards) {
        *old = *new;
        *new = swap;
        first->is_guards = true;
        r->told_by_guard |= 1u << RECORD_FAILURE;
    } else if (l->has_step && !first->has_step) {
        first->step = l->step;
        first->has_step = true;
    }
    clear_other(new);
    return true;
}

static void note_teller(struct record *r)
{
    const struct record_line *l = &r->line[r->n_lines - 1];
    unsigned *told = l->is_guards ? &r->told_by_guard : &r->told;
    if (l->event != RECORD_START) {
        *told |= 1u << l->event;
        return;
    }
    r->last_begin = r->n_lines - 1;
    r->told = r->told_by_guard = 0;
}

static int read_event(struct record *r, const json_t *line, struct record_line *l, ddp_error_t *errp)
{
    bool has_room = make_room(&r->line, r->n_lines, sizeof *r->line) &&
                    make_room(&r->start, r->n_starts, sizeof *r->start) &&
                    make_room(&r->train, r->n_trains, sizeof *r->train) &&
                    make_room(&r->interval, r->n_intervals, sizeof *r->interval) &&
                    make_room(&r->other, r->n_others, sizeof *r->other);
    if (!has_room)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for more lines");
    if (l->event != RECORD_START && r->n_starts == 0)
        return error_set(errp, DDP_E_DATA, EINVAL, "a line \"%s\" before the first \"start\": is this a whole record, "
                         "as --ddp-record writes it?", record_event_name(l->event));
    int rc = l->event == RECORD_START      ? read_start(r, line, errp)
             : l->event == RECORD_TRAIN    ? read_train(r, line, errp)
             : l->event == RECORD_INTERVAL ? read_interval(r, line, l->step, errp)
                                           : read_other(r, line, l->event, errp);
    if (rc < 0)
        return -1;
    if ((l->event == RECORD_START && join_starts(r, l->is_guards)) || join_failures(r, l))
        return 1;
    l->at = (*count_of(r, l->event))++;
    unsigned begun = 1u << RECORD_TRAIN | 1u << RECORD_INTERVAL; /* what a program adds later is no begin */
    l->is_begin = l->event == RECORD_RESUME || (l->event == RECORD_TRAIN && !(r->told & begun));
    r->line[r->n_lines++] = *l;
    note_teller(r);
    return 0;
}

/* Into l->step and has_step, where one is told. */
static bool read_step(const json_t *v, struct record_line *l)
{
    uint64_t step;
    if (!v || json_is_null(v))
        return l->event != RECORD_INTERVAL && l->event != RECORD_RESUME;
    if (!record_store(v, MEMBER_COUNT, &step))
        return record_is_programs(l->event);
    l->step = step;
    l->has_step = true;
    return true;
}

static int read_line(struct record *r, const json_t *line, ddp_error_t *errp)
{
    struct record_line l = {.kept_to = UINT64_MAX};
    const char *name = json_string_value(json_object_get(line, "event"));
    if (!name)
        return error_set(errp, DDP_E_DATA, EINVAL, "not a line of a record: no \"event\"");
    l.event = record_event_of(name);
    if (l.event == RECORD_EVENTS)
        return 1;
    if (!record_store(json_object_get(line, "t"), MEMBER_SECONDS, &l.t))
        return record_bad(errp, name, "t", "has no possible");
    if (!read_step(json_object_get(line, "step"), &l))
        return record_bad(errp, name, "step", "has no possible");
    l.is_guards = json_string_length(json_object_get(line, "by")) > 0;
    if (is_told(r, line, &l))
        return 1;
    if (r->n_lines == RECORD_LINES_MAX)
        return error_set(errp, DDP_E_DATA, E2BIG, "a record of more than %u lines is not read: begin a new file",
                         RECORD_LINES_MAX);
    return read_event(r, line, &l, errp);
}

int record_add_line(struct record *r, const char *text, size_t n, ddp_error_t *errp)
{
    json_error_t why;
    json_t *line = json_read(text, n, 0, &why);
    if (!line && errno == ENOMEM)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "a line of the record: %s", why.text);
    if (!line)
        return error_set(errp, DDP_E_DATA, RECORD_NO_JSON, "not JSON at byte %d: %s", why.position, why.text);
    int rc = read_line(r, line, errp);
    json_decref(line);
    return rc;
}

/* ---- lines that go ---- */

/* What the first of each array hold, as many as `of` counts. */
static void clear_first(struct record *r, const struct record *of)
{
    for (size_t i = 0; i < of->n_starts; i++)
        clear_start(&r->start[i]);
    for (size_t i = 0; i < of->n_trains; i++)
        free(r->train[i].item);
    for (size_t i = 0; i < of->n_others; i++)
        clear_other(&r->other[i]);
}

static void drop_first(void *list, size_t *n, size_t n_dropped, size_t size)
{
    *n -= n_dropped;
    if (*n && n_dropped)
        memmove(list, (char *)list + n_dropped * size, *n * size);
}

void record_drop(struct record *r, size_t n_lines)
{
    struct record gone = {0};
    for (size_t i = 0; i < n_lines; i++)
        ++*count_of(&gone, r->line[i].event);
    for (size_t i = n_lines; i < r->n_lines; i++)
        r->line[i].at -= *count_of(&gone, r->line[i].event);
    clear_first(r, &gone);
    drop_first(r->line, &r->n_lines, n_lines, sizeof *r->line);
    drop_first(r->start, &r->n_starts, gone.n_starts, sizeof *r->start);
    drop_first(r->train, &r->n_trains, gone.n_trains, sizeof *r->train);
    drop_first(r->interval, &r->n_intervals, gone.n_intervals, sizeof *r->interval);
    drop_first(r->other, &r->n_others, gone.n_others, sizeof *r->other);
}

void record_clear(struct record *r)
{
    clear_first(r, r);
    free(r->line);
    free(r->start);
    free(r->train);
    free(r->interval);
    free(r->other);
    record_ranks_clear(&r->ranks);
    *r = (struct record){0};
}
