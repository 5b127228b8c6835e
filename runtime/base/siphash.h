/* siphash.h - SipHash-2-4 (Aumasson, Bernstein: SipHash: a fast short-input PRF, 2012): who does not have the key can
 * neither tell the hash of a text nor, but by chance (2^-64), say one that is right. Pure. */
#ifndef DDP_BASE_SIPHASH_H
#define DDP_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#define SIPHASH_KEY_LEN 16

/* The key that 2 * SIPHASH_KEY_LEN hexadecimal digits, in lower case, say. */
void siphash_key(const char *hex, unsigned char ret[SIPHASH_KEY_LEN]);

uint64_t siphash(const unsigned char key[SIPHASH_KEY_LEN], const void *data, size_t n);

#endif
