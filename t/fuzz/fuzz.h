/* fuzz.h - a fuzz target: feeds one input to what it tests and aborts where that breaks a promise. `make fuzz` links it
 * with libFuzzer; `make check` with replay.c, and runs the seeds in t/fuzz/corpus-*. */
#ifndef DDP_T_FUZZ_H
#define DDP_T_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* libFuzzer's own (its libFuzzer.h is not installed), and what a target may add to it. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);

#define PROMISE(holds)                                                                                                 \
    do {                                                                                                               \
        if (!(holds)) {                                                                                                \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #holds);                                        \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
