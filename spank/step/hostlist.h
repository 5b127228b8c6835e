/* hostlist.h - Slurm's host lists: "n[1-3,07],gpu[001-128]-ib,login". Pure.
 *
 * A list is host expressions joined by commas. An expression is text with any number of bracketed parts; each part is a
 * comma-separated list of numbers and ranges. Several parts count with the last one fastest: n[1-2]x[1-2] is n1x1,
 * n1x2, n2x1, n2x2. A number keeps the width that its range's first number is written with: [08-10] is 08, 09, 10.
 * (slurm.conf(5), NodeName; hostlist expressions in scontrol(1).)
 *
 * Lists come from variables that a user may set. Every function here takes time in proportion to the list's length and
 * to the hosts that it visits (hostlist_compress: n log n), and no memory but what it returns. */
#ifndef DDP_SPANK_STEP_HOSTLIST_H
#define DDP_SPANK_STEP_HOSTLIST_H

#include <stddef.h>

#include "runtime/base/error.h"

#define HOSTLIST_HOSTS_MAX (1u << 18) /* a list of more is refused, however short its text is */
#define HOSTLIST_NAME_MAX 255         /* bytes of one host name */

/* *ret = how many hosts the list names (at least 1). 0, or -1 with DDP_E_DATA: an empty list, unbalanced or nested
 * brackets, a range that is not numbers or runs backwards, an empty name, a name or list too long. */
int hostlist_count(const char *list, size_t *ret, ddp_error_t *errp);

/* Host i (from 0) of the list into buf[HOSTLIST_NAME_MAX + 1]. The whole list is checked first. Same errors. */
int hostlist_nth(const char *list, size_t i, char *buf, ddp_error_t *errp);

/* Calls f for every host in order until it returns non-zero, which is then returned; else 0, or -1 as above. */
int hostlist_each(const char *list, int (*f)(const char *host, void *arg), void *arg, ddp_error_t *errp);

/* The n names as one list, "n[1-3,07],login", which the caller frees: sorted by the text before a name's last number,
 * then by that number; each name once. Only a number at a name's very end goes into brackets. hostlist_each gives the
 * same names again. NULL with DDP_E_DATA: no name, or one that is empty, too long, or has a comma, a bracket or white
 * space in it; DDP_E_SYSTEM: memory is short. */
char *hostlist_compress(const char *const *names, size_t n, ddp_error_t *errp);

#endif
