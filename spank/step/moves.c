#include "spank/step/moves.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MORE_BYTES 40 /* what the sentence ends with where names are missing */

/* False: there is no room for the two words. */
static bool append(char *text, const char *a, const char *between, const char *b)
{
    size_t used = strlen(text);
    if (used + 2 + strlen(a) + strlen(between) + strlen(b) >= MOVES_TEXT_MAX - MORE_BYTES)
        return false;
    snprintf(text + used, MOVES_TEXT_MAX - used, "%s%s%s%s", used ? ", " : "", a, between, b);
    return true;
}

const char *moves_text(const struct move *move, size_t n, char ret[MOVES_TEXT_MAX])
{
    const char **gone = calloc(n + 1, sizeof *gone);
    size_t n_gone = 0, n_more = 0;
    *ret = 0;
    for (size_t i = 0; i < n; i++) {
        if (*move[i].by)
            n_more += !append(ret, move[i].by, " takes the place of ", move[i].who);
        else if (gone)
            gone[n_gone++] = move[i].who;
        else
            n_more++;
    }
    char *list = n_gone ? hostlist_compress(gone, n_gone, NULL) : NULL;
    if (n_gone && (!list || !append(ret, "it goes on without", " ", list)))
        n_more += n_gone;
    free(list);
    free(gone);
    size_t used = strlen(ret);
    if (n_more)
        snprintf(ret + used, MOVES_TEXT_MAX - used, "%s%zu%s left", used ? ", and " : "", n_more,
                 used ? " more have" : " nodes have");
    return ret;
}
