/* clock.h - CLOCK_MONOTONIC as a test moves it. For programs linked with -Wl,--wrap=clock_gettime. */
#ifndef DDP_T_LIB_CLOCK_H
#define DDP_T_LIB_CLOCK_H

#include <stdint.h>
#include <time.h>

extern time_t clock_ahead_s; /* by which it goes ahead */
extern _Thread_local const uint64_t *clock_stands_at; /* in this thread it says these ns; NULL: it goes on */

#endif
