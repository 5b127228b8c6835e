/* num.h - numbers from text, strictly: the whole text is the number, no white space, no sign where none belongs,
 * no overflow. Nothing is guessed. */
#ifndef DDP_BASE_NUM_H
#define DDP_BASE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal integer in [min, max]. 0, or -1 with *ret untouched (errno EINVAL: not a number, ERANGE: out of range). */
int num_i64(const char *text, int64_t min, int64_t max, int64_t *ret);
int num_int(const char *text, int min, int max, int *ret);
int num_u64(const char *text, uint64_t max, uint64_t *ret);

/* The environment's variable; 0 where it is none in [0, max]. */
int64_t num_variable(const char *name, int64_t max);

/* Finite decimal number in [min, max] ("3e-3" is one; "inf", "nan" and hexadecimal are not), with a point in every
 * language. Same errors. */
int num_double(const char *text, double min, double max, double *ret);

/* x in as few digits as give it back. */
void num_format(double x, char *buf, size_t size);

/* Behind a noun that counts n: "s", but of one. */
#define PLURAL(n) ((n) == 1 ? "" : "s")

/* on|yes|true|1 or off|no|false|0. Same errors. */
int num_bool(const char *text, bool *ret);

/* True if all of low..high are in a list as "8080,20000-29999", in order as the kernel prints it. */
bool num_list_has(const char *list, int low, int high);

#endif
