/* guards_news.c - lines for the user, which the guard takes and says. */
#include "spank/guards.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "spank/guards_impl.h"

void news_add(guards_t *g, const char *format, ...)
{
    size_t used = strlen(g->news);
    va_list args;
    if (used)
        used += (size_t)snprintf(g->news + used, sizeof g->news - used, "\nddp: ");
    va_start(args, format);
    if (used < sizeof g->news)
        vsnprintf(g->news + used, sizeof g->news - used, format, args);
    va_end(args);
}

const char *guards_news(guards_t *g)
{
    bool has = *g->news;
    snprintf(g->said_news, sizeof g->said_news, "%s", g->news);
    g->news[0] = 0;
    return has ? g->said_news : NULL;
}
