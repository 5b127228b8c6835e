/* news.c - lines for the user, which the guard takes and says. */
#include "spank/guards/guards.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "spank/guards/impl.h"

/* A line that has no room is left out: half of one would name the wrong node. */
void news_add(guards_t *g, const char *format, ...)
{
    size_t used = strlen(g->news), n = used;
    va_list args;
    if (used)
        n += (size_t)snprintf(g->news + used, sizeof g->news - used, "\nddp: ");
    va_start(args, format);
    if (n < sizeof g->news)
        n += (size_t)vsnprintf(g->news + n, sizeof g->news - n, format, args);
    va_end(args);
    if (n >= sizeof g->news)
        g->news[used] = 0;
}

const char *guards_news(guards_t *g)
{
    bool has = *g->news;
    snprintf(g->said_news, sizeof g->said_news, "%s", g->news);
    g->news[0] = 0;
    return has ? g->said_news : NULL;
}
