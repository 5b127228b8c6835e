#include "runtime/base/nearest.h"

#include <stdio.h>
#include <string.h>

enum { LENGTH_MAX = 31 };

static const char *letters_of(const char *name)
{
    return name + strspn(name, "-");
}

/* At most LENGTH_MAX. */
static size_t length_of(const char *name)
{
    size_t n = strcspn(name, "=");
    return n < LENGTH_MAX ? n : LENGTH_MAX;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance, with two neighbours that change places as one edit (optimal string alignment). */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][LENGTH_MAX + 1], n = length_of(a), m = length_of(b);
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return row[m];
}

struct nearest nearest_to(const char *name, size_t slips)
{
    const char *letters = letters_of(name);
    size_t n = length_of(letters);
    return (struct nearest){letters, NULL, ((n + 1) / 2 < slips + 1 ? (n + 1) / 2 : slips + 1)};
}

struct nearest nearest_to_variable(const char *variable, size_t prefix)
{
    size_t letters = length_of(variable + prefix);
    return nearest_to(variable, letters < 4 ? 0 : letters < 8 ? 1 : 2);
}

bool nearest_is_slip(const struct nearest *n)
{
    size_t length = strcspn(n->name, "=");
    return n->found && (strlen(n->found) != length || strncmp(n->found, n->name, length) != 0);
}

void nearest_try(struct nearest *n, const char *candidate)
{
    size_t d = distance(n->name, letters_of(candidate));
    if (d >= n->least)
        return;
    n->least = d;
    n->found = candidate;
}

const char *nearest_text(const struct nearest *n, const char *otherwise, char *buf, size_t size)
{
    snprintf(buf, size, n->found ? "%s%.40s?" : "%s%s", n->found ? ", did you mean " : otherwise,
             n->found ? n->found : "");
    return buf;
}
