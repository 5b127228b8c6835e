/* tensors.h - device arrays of float32 or 16-bit types for tests of CUDA kernels, on a GPU or over the emulator.
 *
 * Every array lies between guard bytes, which tensor_values() and tensor_free() look at (where AddressSanitizer
 * watches, there are none behind it). Outputs begin poisoned with NaN. Whatever fails, fails the test. */
#ifndef DDP_T_LIB_TENSORS_H
#define DDP_T_LIB_TENSORS_H

#include <stdbool.h>

#include "runtime/base/dtype.h"
#include "t/lib/floats.h"

struct tensor {
    void *at; /* device memory: float, or the bits of a DDP_BF16 or DDP_F16 */
    size_t n;
    enum ddp_dtype type;
    void *base;
    size_t base_bytes;
};

/* n elements, the first `offset` elements beyond a 256-byte boundary. */
struct tensor tensor_poisoned(enum ddp_dtype type, size_t n, size_t offset);
struct tensor tensor_random(enum ddp_dtype type, size_t n, size_t offset, float scale);
struct tensor tensor_copy(const struct tensor *t); /* aligned likewise */

/* Its values. The caller frees. */
double *tensor_values(const struct tensor *t);
void tensor_set(struct tensor *t, size_t i, float x);
void tensor_free(struct tensor *t);

/* Fails where t is further from want than its type rounds and, relative to the largest wanted, or 1, tolerance. What
 * float16 cannot hold must be infinite, nothing else. */
void tensor_check(const char *what, const struct tensor *t, const double *want, double tolerance);

/* Mixes t's bits into hash, and its guards are looked at. */
void tensor_hash(uint64_t *hash, const struct tensor *t);

/* Of all these: the bits go into hash, then they are freed. */
#define tensors_end(hash, ...)                                                                                         \
    tensors_end_all(hash, (struct tensor *[]){__VA_ARGS__}, sizeof((struct tensor *[]){__VA_ARGS__}) / sizeof(void *))
void tensors_end_all(uint64_t *hash, struct tensor *const *all, size_t n);

/* ---- arrays of a training step's sizes, of which a test looks at parts ---- */

/* n, or as many as fit into the GPU's free memory with bytes_each, which is said; several calls do not add up. */
size_t tensor_fitting(size_t n, size_t bytes_each);

/* n numbers in [middle - scale, middle + scale), 1048573 of them again and again: a prime, so that where an index wraps
 * at a power of two there are other numbers. */
struct tensor tensor_repeated(enum ddp_dtype type, size_t n, float middle, float scale);

/* Of n_samples places in [0, n) the i-th: the first one, the last one, others drawn. */
size_t tensor_place(int i, int n_samples, size_t n);

/* n elements from `first` on. The caller frees. */
float *tensor_part(const struct tensor *t, size_t first, size_t n);
/* tensor_check of such a part; the largest is that of the part. */
void tensor_check_part(const char *what, const struct tensor *t, size_t first, size_t n, const float *want,
                       double tolerance);

#define tensors_free(...)                                                                                              \
    tensors_free_all((struct tensor *[]){__VA_ARGS__}, sizeof((struct tensor *[]){__VA_ARGS__}) / sizeof(void *))
void tensors_free_all(struct tensor *const *all, size_t n);

/* n_bytes on the device, and back. NULL: uninitialised. Freed with device_drop. */
void *device_bytes(const void *from, size_t n_bytes);
void device_fetch(void *to, const void *from, size_t n_bytes);
void device_drop(void *p);

/* Waits for the device; fails with what went wrong there. */
void device_check(int rc, const char *what);

/* Runs f several times on the same random numbers, over the emulator with the threads in three orders: its results,
 * which it mixes into hash, must have the same bits. The seed is fresh (or DDP_TEST_SEED) and printed. */
void in_every_order(void (*f)(const void *arg, uint64_t *hash), const void *arg);

/* The same with each element of an array as arg. */
#define each_in_every_order(f, args) each_of_n_in_every_order(f, args, sizeof(args) / sizeof *(args), sizeof *(args))
void each_of_n_in_every_order(void (*f)(const void *arg, uint64_t *hash), const void *args, size_t n, size_t size);

/* Without a GPU: tells so as TAP's skip of the whole program. */
bool tensors_cannot_run(void);

#define TENSORS_MAIN(tests)                                                                                            \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return tensors_cannot_run() ? 0 : cmocka_run_group_tests(tests, NULL, NULL);                                   \
    }

#endif
