#include "runtime/grads/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ddp.h"

static int check_name(const struct layout *l, const char *name, ddp_error_t *errp)
{
    if (!name || !*name || strlen(name) > LAYOUT_NAME_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "parameter %d: a name has 1 to %d bytes", l->n, LAYOUT_NAME_MAX);
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 127)
            return error_set(errp, DDP_E_USAGE, EINVAL, "parameter %s: a name has no spaces or control characters",
                             name);
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->param[i].name, name))
            return error_set(errp, DDP_E_USAGE, EEXIST, "parameter %s is declared twice", name);
    return 0;
}

/* Number of elements, or 0 with an error. */
static size_t count_elems(const char *name, const size_t *shape, int ndim, size_t elem_bytes, ddp_error_t *errp)
{
    if (ndim < 1 || ndim > LAYOUT_DIMS_MAX || !shape)
        return error_set(errp, DDP_E_USAGE, EINVAL, "parameter %s: %d dimensions; 1 to %d are allowed", name, ndim,
                         LAYOUT_DIMS_MAX),
               0;
    size_t n = 1;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 0)
            return error_set(errp, DDP_E_USAGE, EINVAL, "parameter %s: dimension %d is 0", name, i), 0;
        if (__builtin_mul_overflow(n, shape[i], &n) || n > (SIZE_MAX >> 8) / elem_bytes)
            return error_set(errp, DDP_E_USAGE, EOVERFLOW, "parameter %s: its size overflows", name), 0;
    }
    return n;
}

/* n_elems, with the rows that DDP_PAD_ROWS adds: less than DDP_PAD_MULTIPLE times as many, for which count_elems has
 * left room. */
static size_t with_rows(size_t n_elems, size_t rows, unsigned flags)
{
    size_t all = (rows + DDP_PAD_MULTIPLE - 1) / DDP_PAD_MULTIPLE * DDP_PAD_MULTIPLE;
    return flags & DDP_PAD_ROWS ? n_elems / rows * all : n_elems;
}

static int grow(struct layout *l, ddp_error_t *errp)
{
    if (l->n < l->room)
        return 0;
    int room = l->room ? 2 * l->room : 64;
    struct layout_param *p = realloc(l->param, (size_t)room * sizeof *p);
    if (!p)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %d parameters", room);
    l->param = p;
    l->room = room;
    return 0;
}

int layout_add(struct layout *l, const char *name, enum ddp_dtype dtype, const size_t *shape, int ndim,
               unsigned flags, ddp_error_t *errp)
{
    if (check_name(l, name, errp) < 0)
        return -1;
    size_t elem_bytes = dtype_size(dtype);
    if (!elem_bytes)
        return error_set(errp, DDP_E_USAGE, EINVAL, "parameter %s: unknown type %d", name, (int)dtype);
    size_t n_elems = count_elems(name, shape, ndim, elem_bytes, errp);
    if (!n_elems || grow(l, errp) < 0)
        return -1;
    size_t bytes = layout_padded(with_rows(n_elems, shape[0], flags) * elem_bytes);
    if (bytes > LAYOUT_BYTES_MAX - l->n_bytes)
        return error_set(errp, DDP_E_USAGE, EOVERFLOW, "parameter %s: all parameters together are more than 2^48 bytes",
                         name);
    struct layout_param *p = &l->param[l->n];
    *p = (struct layout_param){.dtype = dtype,
                               .ndim = ndim,
                               .flags = flags,
                               .n_elems = n_elems,
                               .offset_bytes = l->n_bytes,
                               .room_bytes = bytes};
    strcpy(p->name, name);
    memcpy(p->shape, shape, (size_t)ndim * sizeof *shape);
    l->n_bytes += bytes;
    return l->n++;
}

void layout_clear(struct layout *l)
{
    free(l->param);
    *l = (struct layout){0};
}

char *layout_text(const struct layout *l)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    for (int i = 0; i < l->n; i++) {
        const struct layout_param *p = &l->param[i];
        fprintf(f, "%s %s [", p->name, dtype_name(p->dtype));
        for (int k = 0; k < p->ndim; k++)
            fprintf(f, "%s%zu", k ? "," : "", p->shape[k]);
        fprintf(f, "] flags %u\n", p->flags);
    }
    bool failed = ferror(f);
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

#define EXCERPT 60 /* bytes of each line, so that both fit into an error's text */

/* Of a line of n bytes, "(none)" if there is none, the part in which it differs from another: they have the first
 * n_same bytes in common. */
static void excerpt(const char *line, size_t n, size_t n_same, char ret[EXCERPT + 1])
{
    static const char gap[] = "...";
    size_t room = EXCERPT - (sizeof gap - 1), lead = room / 2, from = 0;
    if (n > EXCERPT && n_same > lead)
        from = n_same - lead < n - room ? n_same - lead : n - room;
    if (n == 0)
        snprintf(ret, EXCERPT + 1, "(none)");
    else
        snprintf(ret, EXCERPT + 1, "%s%.*s", from ? gap : "", (int)(n - from), line + from);
}

int layout_explain(const char *a, int rank_a, const char *b, int rank_b, ddp_error_t *errp)
{
    char line_a[EXCERPT + 1], line_b[EXCERPT + 1];
    size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n"), n_same = 0;
    int i = 0;
    for (; *a && *b && na == nb && !memcmp(a, b, na); i++) {
        a += na + 1;
        b += nb + 1;
        na = strcspn(a, "\n");
        nb = strcspn(b, "\n");
    }
    while (n_same < na && n_same < nb && a[n_same] == b[n_same])
        n_same++;
    excerpt(a, na, n_same, line_a);
    excerpt(b, nb, n_same, line_b);
    return error_set(errp, DDP_E_LAYOUT, EINVAL, "ranks declare different models: parameter %d is \"%s\" on rank %d "
                     "and \"%s\" on rank %d; start every rank with the same options", i, line_a, rank_a, line_b,
                     rank_b);
}
