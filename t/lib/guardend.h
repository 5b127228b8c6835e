/* guardend.h - the guard's end of the connection by which a program tells it who is the cause. */
#ifndef DDP_T_LIB_GUARDEND_H
#define DDP_T_LIB_GUARDEND_H

#include <stdbool.h>

int guardend_open(void); /* this thread heeds it from now on; -1: there is none */
bool guardend_has(int guard, int rank, const char *text); /* it was told that of this rank, and nothing before it */

#endif
