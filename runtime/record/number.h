/* number.h - numbers as JSON and Prometheus have them: with a point, whatever the program's language has. */
#ifndef DDP_RECORD_NUMBER_H
#define DDP_RECORD_NUMBER_H

#include <stdio.h>

/* A finite number: whole ones below 1e15 to the last digit (bytes, say), others with nine digits. */
void number_put(FILE *f, double x);

void number_put_ms(FILE *f, double seconds); /* with three decimals */

#endif
