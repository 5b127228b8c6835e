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

/* Levenshtein's distance. */
static size_t distance(const char *a, const char *b)
{
    size_t row[LENGTH_MAX + 1], n = length_of(a), m = length_of(b);
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diag = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = diag + (a[i - 1] != b[j - 1]);
            diag = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
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
