/* bytes.h - numbers as they are sent over sockets: least significant byte first, at any address. */
#ifndef DDP_BASE_BYTES_H
#define DDP_BASE_BYTES_H

#include <stdint.h>

static inline void bytes_put32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

static inline uint32_t bytes_get32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

#endif
