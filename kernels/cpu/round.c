/* A Philox block of 128 bits is for 8 elements, 16 bits each, those with the same number / 8. Added to the 16 bits that
 * bfloat16 lacks, they carry into those that it has with the wanted probability. */
#include "kernels/round.h"

#include <math.h>

#include "kernels/bits.h"

enum { GROUP = 8, ROUNDS = 10 };

void kernel_philox(uint32_t ret[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t a = (uint64_t)0xd2511f53 * c[0], b = (uint64_t)0xcd9e8d57 * c[2];
        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k[0];
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k[1];
        c[3] = (uint32_t)a;
        k[0] += 0x9e3779b9;
        k[1] += 0xbb67ae85;
    }
    for (int i = 0; i < 4; i++)
        ret[i] = c[i];
}

static uint16_t rounded(float x, uint32_t random)
{
    return isnan(x) ? 0x7fff : (uint16_t)((f32_bits(x) + random) >> 16);
}

void kernel_round_bf16(uint16_t *out, const float *in, size_t n, uint64_t first, const struct rounding *r)
{
    const uint32_t key[2] = {(uint32_t)r->seed, (uint32_t)(r->seed >> 32)};
    uint32_t random[4] = {0};
    for (size_t i = 0; i < n; i++) {
        uint64_t group = (first + i) / GROUP, at = (first + i) % GROUP;
        if (i == 0 || at == 0) {
            const uint32_t counter[4] = {(uint32_t)group, (uint32_t)(group >> 32), (uint32_t)r->step,
                                         (uint32_t)(r->step >> 32)};
            kernel_philox(random, counter, key);
        }
        out[i] = rounded(in[i], random[at / 2] >> (at % 2 * 16) & 0xffff);
    }
}
