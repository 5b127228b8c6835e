/* duration.h - how long something took, for people. Pure. */
#ifndef DDP_BASE_DURATION_H
#define DDP_BASE_DURATION_H

#include <stddef.h>

/* s seconds as "2 h 13 min", "61.2 ms"; "?": NAN. Returns buf. */
const char *duration_text(double s, char *buf, size_t size);

#endif
