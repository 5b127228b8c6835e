/* Fuzz target: records of runs, as they are read, judged, and shown as text and as a page. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/report/report.h"
#include "t/fuzz/fuzz.h"

struct pieces {
    double now;
    bool is_whole;
};

static void add(void *arg, enum goodput_class c, double from_t, double to_t)
{
    struct pieces *p = arg;
    p->is_whole &= c >= 0 && c < GOODPUT_CLASSES && from_t == p->now && to_t > from_t;
    p->now = to_t;
}

/* All of the time is in one class, without gaps. */
static void judge(const struct record *r)
{
    struct goodput g = goodput_of(r, NULL, NULL);
    struct pieces p = {g.from_t, true};
    double sum = 0;
    goodput_of(r, add, &p);
    for (int c = 0; c < GOODPUT_CLASSES; c++) {
        PROMISE(g.class_s[c] >= 0);
        sum += g.class_s[c];
    }
    PROMISE(p.is_whole && p.now == g.to_t && g.to_t >= g.from_t);
    PROMISE(fabs(sum - (g.to_t - g.from_t)) <= 1e-9 * fmax(g.to_t, 1));
    PROMISE(isnan(g.share) || (g.share >= 0 && g.share <= 1 + 1e-9));
}

static void use(const struct record *r)
{
    char who[32];
    PROMISE(r->n_starts > 0 && r->n_lines >= r->n_starts && r->line[0].event == RECORD_START);
    PROMISE(r->ranks.n_columns <= RECORD_COLUMNS && r->ranks.n > 0);
    for (size_t i = 0; i < r->n_intervals; i++)
        PROMISE(r->interval[i].wall_s >= 0 && r->interval[i].slowest < r->ranks.n);
    for (int k = -1; k <= r->ranks.n; k += r->ranks.n / 2 + 1)
        PROMISE(*record_rank_name(r, k, who, sizeof who));
    judge(r);
}

static void show(const char *path)
{
    static struct report_run run[2];
    char *text = NULL, *page = NULL;
    size_t n_text, n_page;
    FILE *f = open_memstream(&text, &n_text), *html = open_memstream(&page, &n_page);
    if (f && html && report_run_read(path, &run[0], NULL) == 0) {
        run[1] = run[0];
        report_text(f, run, true);
        report_columns(f, run, 2);
        report_page(html, run, 1);
        report_page(html, run, 2);
        fflush(f);
        fflush(html);
        PROMISE(n_text > 0 && n_page > 0 && !strstr(page, "<script"));
        report_run_clear(&run[0]);
    }
    if (f)
        fclose(f);
    if (html)
        fclose(html);
    free(text);
    free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct record r = {.n_lines = 77};
    ddp_error_t e = {0};
    char path[] = "/tmp/ddp-fuzz.XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");
    if (!f)
        return 0;
    fwrite(data, 1, n, f);
    rewind(f);
    if (record_read_stream(f, "x", &r, &e) < 0) {
        PROMISE(e.text[0] == 'x' && e.domain == DDP_E_DATA && r.n_lines == 77);
    } else {
        use(&r);
        record_clear(&r);
        show(path);
    }
    fclose(f);
    remove(path);
    return 0;
}
