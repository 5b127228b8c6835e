/* commas.h - a language whose numbers have a comma, for what is to have a point all the same. */
#ifndef DDP_T_COMMAS_H
#define DDP_T_COMMAS_H

#include <stdbool.h>

/* Makes it in test_folder (folder.h), and this process speaks it from then on, as a program that calls setlocale.
 * False: it cannot be made here. */
bool commas_speak(void);

#endif
