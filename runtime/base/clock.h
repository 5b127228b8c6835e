/* clock.h - monotonic time and deadlines. A deadline is an absolute time in ns, so that a wait made of many small
 * waits still ends when it should. */
#ifndef DDP_BASE_CLOCK_H
#define DDP_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
#define DEADLINE_MAX_S 1e9 /* 31 years: whoever asks for more means never */

uint64_t clock_ns(void);                  /* CLOCK_MONOTONIC */
uint64_t deadline_in(double seconds);     /* now + seconds, which are taken as 0 to DEADLINE_MAX_S */
uint64_t deadline_left_ns(uint64_t when); /* 0 when it has passed */
int deadline_left_ms(uint64_t when);      /* for poll(): rounded up, at least 0, at most an hour */
bool deadline_is_past(uint64_t when);     /* 0: there is none, which never passes */

#endif
