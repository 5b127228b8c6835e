/* begins.h - how a text begins. */
#ifndef DDP_BASE_BEGINS_H
#define DDP_BASE_BEGINS_H

#include <stdbool.h>
#include <string.h>

static inline bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

#endif
