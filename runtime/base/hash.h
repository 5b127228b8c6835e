/* hash.h - FNV-1a (Fowler, Noll, Vo; 64 bits): finds differences by accident, not by malice. */
#ifndef DDP_BASE_HASH_H
#define DDP_BASE_HASH_H

#include <stdint.h>

#define HASH_START 0xcbf29ce484222325u

static inline uint64_t hash_step(uint64_t h, uint64_t value)
{
    return (h ^ value) * 0x100000001b3u;
}

static inline uint64_t hash_text(const char *text)
{
    uint64_t h = HASH_START;
    for (; *text; text++)
        h = hash_step(h, (unsigned char)*text);
    return h;
}

#endif
