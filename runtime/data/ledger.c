#include "runtime/data/ledger.h"

#define GOLDEN 0x9e3779b97f4a7c15u

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

struct ledger ledger_of(uint64_t n, uint64_t seed, uint64_t epoch)
{
    int bits = n > 4 ? 64 - __builtin_clzll(n - 1) : 2;
    uint64_t state = mix(mix(seed) ^ epoch);
    struct ledger l = {.n = n, .high_bits = bits - bits / 2, .low_bits = bits / 2};
    for (int i = 0; i < LEDGER_ROUNDS; i++)
        l.key[i] = mix(state += GOLDEN);
    return l;
}

static uint64_t permute(const struct ledger *l, uint64_t x)
{
    uint64_t high = x >> l->low_bits, low = x & (((uint64_t)1 << l->low_bits) - 1);
    for (int i = 0; i < LEDGER_ROUNDS; i += 2) {
        high ^= mix(low + l->key[i]) >> (64 - l->high_bits);
        low ^= mix(high + l->key[i + 1]) >> (64 - l->low_bits);
    }
    return high << l->low_bits | low;
}

uint64_t ledger_get(const struct ledger *l, uint64_t i)
{
    do
        i = permute(l, i);
    while (i >= l->n);
    return i;
}
