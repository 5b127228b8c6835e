/* checksum_impl.h - the two loops over blocks, for one vector width: included by a file each, which has set the width
 * and defines WIDTH(name), the functions' names, and MOVE(to, from), 64 bytes to an aligned address; private to
 * runtime/ckpt. The one place where xxhash.h is included: its functions go into each of those files. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

#include "runtime/ckpt/checksum.h"

#define LINE ((size_t)64)

/* Writes past the caches, since the copy would only displace useful data there, and prefetches the next block, so that
 * its checksum does not wait for memory. */
static void move_block(char *to, const char *from, size_t n)
{
    size_t lines = (uintptr_t)to % LINE ? 0 : n / LINE * LINE;
    for (size_t i = 0; i < lines; i += LINE) {
        __builtin_prefetch(from + i + CKPT_BLOCK_BYTES, 0, 2);
        MOVE(to + i, from + i);
    }
    memcpy(to + lines, from + lines, n - lines);
}

uint64_t WIDTH(checksum_copy)(void *to, const void *from, size_t n, uint64_t first)
{
    uint64_t sum = 0;
    for (size_t at = 0, part; at < n; at += part, first++) {
        part = n - at < CKPT_BLOCK_BYTES ? n - at : CKPT_BLOCK_BYTES;
        move_block((char *)to + at, (const char *)from + at, part);
        sum += XXH3_64bits_withSeed((const char *)from + at, part, first);
    }
    return sum;
}

uint64_t WIDTH(checksum_blocks)(const void *data, size_t n, uint64_t first)
{
    uint64_t sum = 0;
    for (size_t at = 0, part; at < n; at += part, first++) {
        part = n - at < CKPT_BLOCK_BYTES ? n - at : CKPT_BLOCK_BYTES;
        sum += XXH3_64bits_withSeed((const char *)data + at, part, first);
    }
    return sum;
}
