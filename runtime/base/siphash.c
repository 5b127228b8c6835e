#include "runtime/base/siphash.h"

#include "runtime/base/bytes.h"

static uint64_t get64(const unsigned char *p)
{
    return bytes_get32(p) | (uint64_t)bytes_get32(p + 4) << 32;
}

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void stir(uint64_t v[4], int rounds)
{
    while (rounds-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static void take(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    stir(v, 2);
    v[0] ^= word;
}

static unsigned digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10) & 15;
}

void siphash_key(const char *hex, unsigned char ret[SIPHASH_KEY_LEN])
{
    for (int i = 0; i < SIPHASH_KEY_LEN; i++)
        ret[i] = (unsigned char)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
}

uint64_t siphash(const unsigned char key[SIPHASH_KEY_LEN], const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t k0 = get64(key), k1 = get64(key + 8), last = (uint64_t)n << 56;
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
                     k1 ^ 0x7465646279746573u};
    for (; n >= 8; n -= 8, p += 8)
        take(v, get64(p));
    for (size_t i = 0; i < n; i++)
        last |= (uint64_t)p[i] << 8 * i;
    take(v, last);
    v[2] ^= 0xff;
    stir(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
