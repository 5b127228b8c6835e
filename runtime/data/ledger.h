/* ledger.h - the order of an epoch's samples as a function of their place in it: a keyed permutation of [0, n) that
 * takes no memory, and any place in it at once. Pure.
 *
 * A Feistel network permutes the numbers of b bits, b the fewest, and at least 2, that n - 1 fits into. A number is
 * (high, low), of b - b/2 and b/2 bits; in round i = 0, 2, 4, ... high ^= mix(low + key[i]), in the rounds between
 * low ^= mix(high + key[i]), each cut to the highest bits of mix that it takes. What falls beyond n is permuted again
 * until it does not (cycle walking), which is a permutation of [0, n): Black and Rogaway, Ciphers with Arbitrary Finite
 * Domains, CT-RSA 2002. 2^b < 2n from n = 3 on, so below 2 turns are taken on average. Unequal halves and shuffling
 * by such a network are described by Mitchell, Stokes, Frank and Holmes, Bandwidth-Optimal Random Shuffling for GPUs,
 * ACM TOPC 9(1), 2022 (arXiv:2106.06161), who fill up with more numbers instead of walking.
 *
 * mix is SplitMix64's (Steele, Lea and Flood, OOPSLA 2014), and so is the stream of keys, from the state
 * mix(mix(seed) ^ epoch). 24 rounds, as there: with 12 the orders of 6 samples are not equally probable. From b = 4 on
 * such a network makes even permutations only, whatever its functions; where n is 2^b that leaves half of the n!
 * orders. */
#ifndef DDP_RUNTIME_DATA_LEDGER_H
#define DDP_RUNTIME_DATA_LEDGER_H

#include <stdint.h>

#define LEDGER_MAX ((uint64_t)1 << 63) /* samples */
#define LEDGER_ROUNDS 24

struct ledger {
    uint64_t n;
    int high_bits, low_bits;
    uint64_t key[LEDGER_ROUNDS];
};

/* The order of epoch `epoch` of n samples, 1..LEDGER_MAX. */
struct ledger ledger_of(uint64_t n, uint64_t seed, uint64_t epoch);

/* Its i-th sample, i < n. */
uint64_t ledger_get(const struct ledger *l, uint64_t i);

#endif
