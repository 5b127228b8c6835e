/* folder.h - a folder of its own for each unit test, which goes with all that is in it, whether the test fails or not:
 * cmocka_unit_test_setup_teardown(f, folder_make, folder_remove). */
#ifndef DDP_T_FOLDER_H
#define DDP_T_FOLDER_H

extern char test_folder[64];

int folder_make(void **state);
int folder_remove(void **state);

/* There: a file with this text, and the folders on the way to it. */
void folder_put(const char *path, const char *text);

#endif
